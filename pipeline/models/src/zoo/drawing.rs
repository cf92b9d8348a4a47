//! Networks at thousands of sizes: what a plan must know of each, without building each.
//!
//! Batch sizes and the like stand in a few shapes of a graph and leave the rest as it is. So a
//! network is built once, its names are resolved once and its JSON is written once; for other
//! sizes only its types are worked out anew, and the few shapes are put into the text that is
//! hashed. The result is that of building the graph itself.

use std::collections::BTreeMap;

use schema::{
    Digest, Graph, Mode,
    graph::{Loss, Node, Op},
};

use super::{
    build_for, deepspeech2::FREQUENCIES, dims, entry, has_one_value_a_channel, resolve_dims,
};
use crate::{
    cost::{self, Cost},
    infer::{ValueType, Wires},
};

/// A shape that sizes are part of.
pub(super) struct Sized {
    place: Place,
    shape: &'static [Size],
}

/// Where such a shape stands.
#[derive(Clone, Copy)]
enum Place {
    Input(&'static str),
    /// The labels of the loss, where there is one.
    Labels,
    Parameter(&'static str),
    /// The attribute of a node.
    Node(&'static str),
}

/// What such a shape belongs to, by its place.
#[derive(Clone, Copy)]
enum Bearer {
    /// Among all values.
    Value(usize),
    /// Among the nodes.
    Node(usize),
}

/// The size of an axis.
enum Size {
    Fixed(u64),
    /// That of a dimension of the network.
    Dim(&'static str),
    /// Half of that, rounded up.
    Half(&'static str),
}

const fn sized(place: Place, shape: &'static [Size]) -> Sized {
    Sized { place, shape }
}

const BATCH: Size = Size::Dim("batch");
const IMAGE: Size = Size::Dim("image");
const SEQ: Size = Size::Dim("seq");
const TARGET: Size = Size::Dim("target");

/// Sizes in networks that look at images.
pub(super) const IMAGES: &[Sized] = &[
    sized(
        Place::Input("input"),
        &[BATCH, Size::Fixed(3), IMAGE, IMAGE],
    ),
    sized(Place::Labels, &[BATCH]),
];

/// Sizes in ViT; what follows from the image's is drawn anew.
pub(super) const VIT: &[Sized] = &[
    sized(
        Place::Input("input"),
        &[BATCH, Size::Fixed(3), IMAGE, IMAGE],
    ),
    sized(
        Place::Node("embeddings.expand"),
        &[BATCH, Size::Fixed(1), Size::Fixed(768)],
    ),
    sized(Place::Labels, &[BATCH]),
];

/// Sizes in networks that read text without token types.
pub(super) const PLAIN_TEXT: &[Sized] = &[
    sized(Place::Input("input_ids"), &[BATCH, SEQ]),
    sized(
        Place::Parameter("embeddings.position_ids"),
        &[Size::Fixed(1), SEQ],
    ),
    sized(Place::Labels, &[BATCH]),
];

/// Sizes in networks that go on writing a text.
pub(super) const GENERATION: &[Sized] = &[
    sized(Place::Input("input_ids"), &[BATCH, SEQ]),
    sized(Place::Parameter("position_ids"), &[Size::Fixed(1), SEQ]),
    sized(Place::Labels, &[BATCH, SEQ]),
];

/// Sizes in networks that translate.
pub(super) const TRANSLATION: &[Sized] = &[
    sized(Place::Input("input_ids"), &[BATCH, SEQ]),
    sized(Place::Input("decoder_input_ids"), &[BATCH, TARGET]),
    sized(
        Place::Parameter("encoder.embed_positions.weight"),
        &[SEQ, Size::Fixed(512)],
    ),
    sized(
        Place::Parameter("decoder.embed_positions.weight"),
        &[TARGET, Size::Fixed(512)],
    ),
    sized(Place::Labels, &[BATCH, TARGET]),
];

/// Sizes in networks that go on writing a sentence.
pub(super) const SENTENCES: &[Sized] = &[
    sized(Place::Input("input_ids"), &[BATCH, SEQ]),
    sized(Place::Labels, &[BATCH, SEQ]),
];

/// Sizes in networks that listen.
pub(super) const SPEECH: &[Sized] = &[
    sized(
        Place::Input("input"),
        &[
            BATCH,
            Size::Fixed(1),
            Size::Fixed(FREQUENCIES),
            Size::Dim("frames"),
        ],
    ),
    sized(Place::Labels, &[BATCH, Size::Half("frames")]),
];

/// Sizes in networks that read text.
pub(super) const TEXT: &[Sized] = &[
    sized(Place::Input("input_ids"), &[BATCH, SEQ]),
    sized(Place::Input("token_type_ids"), &[BATCH, SEQ]),
    sized(
        Place::Parameter("embeddings.position_ids"),
        &[Size::Fixed(1), SEQ],
    ),
    sized(Place::Labels, &[BATCH]),
];

impl Sized {
    fn at(&self, dims: &BTreeMap<String, u64>) -> Option<Vec<u64>> {
        let size = |size: &Size| match size {
            Size::Fixed(size) => Some(*size),
            Size::Dim(dim) => dims.get(*dim).copied(),
            Size::Half(dim) => dims.get(*dim).map(|size| size.div_ceil(2)),
        };
        self.shape.iter().map(size).collect()
    }
}

impl Place {
    /// The shape that stands here.
    fn shape(self, graph: &mut Graph) -> Option<&mut Vec<u64>> {
        match self {
            Self::Input(name) => {
                let mut inputs = graph.inputs.iter_mut();
                inputs
                    .find(|input| input.name == name)
                    .map(|it| &mut it.shape)
            }
            Self::Labels => graph
                .loss
                .as_mut()
                .map(|Loss::CrossEntropy { labels, .. }| &mut labels.shape),
            Self::Parameter(name) => {
                let mut parameters = graph.parameters.iter_mut();
                let found = parameters.find(|parameter| parameter.name == name);
                found.map(|parameter| &mut parameter.shape)
            }
            Self::Node(name) => {
                let mut nodes = graph.nodes.iter_mut();
                attribute(nodes.find(|node| node.name == name)?)
            }
        }
    }

    /// What it belongs to.
    fn bearer(self, graph: &Graph, wires: &Wires) -> Option<Bearer> {
        let value = match self {
            Self::Input(name) => graph.inputs.iter().position(|input| input.name == name),
            Self::Labels => wires.labels(),
            Self::Parameter(name) => {
                let mut parameters = graph.parameters.iter();
                let index = parameters.position(|parameter| parameter.name == name);
                index.map(|index| wires.parameter(index))
            }
            Self::Node(name) => {
                let index = graph.nodes.iter().position(|node| node.name == name)?;
                return Some(Bearer::Node(index));
            }
        };
        value.map(Bearer::Value)
    }
}

/// The shape that an operator is told.
const fn attribute(node: &mut Node) -> Option<&mut Vec<u64>> {
    match &mut node.op {
        Op::Expand { shape } => Some(shape),
        _ => None,
    }
}

/// What a plan must know of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Hash of the graph: [`Digest::of_value`] of what [`build_for`] makes.
    pub graph: Digest,
    /// Cost of a step.
    pub cost: Cost,
}

/// The networks drawn so far, to be asked for at any sizes.
#[derive(Default)]
pub struct Drawings {
    drawn: BTreeMap<(String, Mode, BTreeMap<String, u64>), Option<Drawing>>,
}

impl Drawings {
    /// What a plan must know of the network `name` at these dimensions, all of them given; `None`
    /// where [`build_for`] or [`cost::total`] refuses it, to be asked why.
    pub fn summary(
        &mut self,
        name: &str,
        dims: &BTreeMap<String, u64>,
        mode: Mode,
    ) -> Option<Summary> {
        let redrawn = dims::redrawn(name, dims);
        self.drawn
            .entry((name.to_owned(), mode, redrawn))
            .or_insert_with_key(|(name, mode, redrawn)| Drawing::new(name, redrawn, *mode))
            .as_mut()?
            .at(dims)
    }
}

/// A network at some sizes, ready to be had at others.
struct Drawing {
    graph: Graph,
    mode: Mode,
    wires: Wires,
    /// Types of all values at the sizes last asked for.
    types: Vec<ValueType>,
    /// The graph's JSON before and between the shapes that follow each.
    text: Vec<(Vec<u8>, &'static Sized, Bearer)>,
    /// The JSON after the last of them.
    end: Vec<u8>,
}

impl Drawing {
    fn new(name: &str, redrawn: &BTreeMap<String, u64>, mode: Mode) -> Option<Self> {
        let dims = resolve_dims(name, redrawn).ok()?;
        let graph = build_for(name, &dims, mode).ok()?;
        let wires = Wires::new(&graph)?;
        let (text, end) = cut(&graph, &wires, entry(name).ok()?.sized)?;
        Some(Self {
            types: wires.given(&graph),
            graph,
            mode,
            wires,
            text,
            end,
        })
    }

    fn at(&mut self, dims: &BTreeMap<String, u64>) -> Option<Summary> {
        let mut shapes = Vec::with_capacity(self.text.len());
        for (_, sized, bearer) in &self.text {
            let shape = sized.at(dims)?;
            shapes.push(serde_json::to_vec(&shape).ok()?);
            match *bearer {
                Bearer::Value(place) => Wires::give(&mut self.types, place, shape).ok()?,
                Bearer::Node(index) => *attribute(self.graph.nodes.get_mut(index)?)? = shape,
            }
        }
        self.wires.infer(&self.graph, &mut self.types).ok()?;
        if self.mode == Mode::Training && !self.is_trainable() {
            return None;
        }
        let before = self.text.iter().map(|(before, ..)| before);
        let pieces = before
            .zip(&shapes)
            .flat_map(|(before, shape)| [before, shape]);
        let pieces = pieces.chain([&self.end]).map(Vec::as_slice);
        Some(Summary {
            graph: Digest::of_pieces(pieces),
            cost: cost::of_types(&self.graph, &self.wires, &self.types, self.mode).ok()?,
        })
    }

    fn is_trainable(&self) -> bool {
        let mut nodes = self.wires.nodes(&self.graph);
        nodes.all(|(node, reads, _)| {
            let value = reads.first().and_then(|place| self.types.get(*place));
            !matches!(node.op, Op::BatchNormalization { .. })
                || !value.is_some_and(has_one_value_a_channel)
        })
    }
}

type Cut = (Vec<(Vec<u8>, &'static Sized, Bearer)>, Vec<u8>);

/// Cuts the graph's JSON at the shapes that sizes are part of.
fn cut(graph: &Graph, wires: &Wires, sized: &'static [Sized]) -> Option<Cut> {
    let mut marked = graph.clone();
    // No axis can be so long, so each mark stands in the text once.
    let marks = (0..).map(|index| u64::MAX - index);
    let mut places = Vec::new();
    for (sized, mark) in sized.iter().zip(marks) {
        let is_absent = matches!(sized.place, Place::Labels) && graph.loss.is_none();
        if !is_absent {
            *sized.place.shape(&mut marked)? = vec![mark];
            places.push((format!("[{mark}]"), sized));
        }
    }
    let text = serde_json::to_string(&marked).ok()?;
    let mut found = Vec::new();
    for (mark, sized) in places {
        found.push((text.find(&mark)?, mark.len(), sized));
    }
    found.sort_unstable_by_key(|(at, ..)| *at);
    let (mut pieces, mut end) = (Vec::new(), 0);
    for (at, length, sized) in found {
        let before = text.get(end..at)?.as_bytes().to_vec();
        pieces.push((before, sized, sized.place.bearer(graph, wires)?));
        end = at + length;
    }
    Some((pieces, text.get(end..)?.as_bytes().to_vec()))
}
