//! The networks that show what a device can do: what a step of each costs, and that nobody is offered
//! them.

use std::collections::BTreeMap;

use photofinish_models::{
    cost,
    zoo::{self, ceilings},
};
use schema::{
    Mode,
    graph::{Op, Role},
};

fn build(name: &str, dimension: &str, size: u64) -> schema::Graph {
    let dims = BTreeMap::from([(dimension.to_owned(), size)]);
    zoo::build(name, &dims).expect("a network of the zoo")
}

#[test]
fn a_product_costs_two_operations_for_each_pair_of_numbers() {
    let graph = build(ceilings::PRODUCT, ceilings::SIZE, 2048);
    let cost = cost::total(&graph, Mode::Inference).unwrap();
    assert_eq!(cost.flops, 2 * 2048_u64.pow(3));
    assert_eq!(cost.bytes, 3 * 4 * 2048_u64.pow(2));
    // Neither operand is known before the step.
    assert!(graph.parameters.is_empty());
    assert_eq!(graph.inputs.len(), 2);
    assert!(matches!(graph.nodes.as_slice(), [node] if node.op == Op::MatMul));
}

#[test]
fn a_pass_over_memory_reads_all_and_writes_next_to_nothing() {
    let graph = build(ceilings::READING, ceilings::MIB, 256);
    let cost = cost::total(&graph, Mode::Inference).unwrap();
    let read = 256_u64 << 20;
    let written = cost.bytes - read;
    assert!(written > 0 && written * 1000 < read, "{written}");
    // Far below any ridge: one addition for four bytes.
    assert_eq!(cost.flops, read / 4);
    assert!(graph.parameters.iter().all(|it| it.role != Role::Weight));
}

#[test]
fn no_list_offers_them() {
    for name in [ceilings::PRODUCT, ceilings::READING] {
        assert!(!zoo::names().contains(&name));
        assert!(!zoo::is_concerned(name, zoo::LAYOUT));
    }
    let unknown = zoo::build("ceiling", &BTreeMap::new()).unwrap_err();
    assert!(!unknown.to_string().contains("ceiling_"), "{unknown}");
}
