//! What goes in and comes out of a model that is more than a graph can say.

use schema::Graph;

use super::{Outline, ReadError, import::Import, whole};

impl Import<'_> {
    /// The model without what it computes.
    pub(super) fn outline(&mut self) -> Result<Outline, ReadError> {
        let file = self.file;
        let given = self.values.keys().map(String::as_str);
        whole::check_order(&file.nodes, given)?;
        let names = self.output_names()?;
        self.survey()?;
        self.check_output_types()?;
        let graph = Graph {
            name: file.name.clone(),
            inputs: self.take_inputs(),
            parameters: Vec::new(),
            nodes: Vec::new(),
            outputs: names,
            loss: None,
        };
        let nodes = file.nodes.node.len();
        Ok(Outline { graph, nodes })
    }
}
