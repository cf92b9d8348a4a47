//! Attributes of a node, by name.

use crate::onnx::proto::{AttributeProto, AttributeType, NodeProto, TensorProto};

/// The attributes of a node.
#[derive(Clone, Copy)]
pub(super) struct Attributes<'a>(pub(super) &'a NodeProto);

impl<'a> Attributes<'a> {
    fn find(&self, name: &str) -> Option<&'a AttributeProto> {
        self.0.attribute.iter().find(|given| given.name == name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        let given = self.find(name);
        given.map_or(default, |given| {
            given
                .i
                .unwrap_or(left_out(given, AttributeType::Int, default))
        })
    }

    pub(super) fn float(&self, name: &str, default: f32) -> f32 {
        let given = self.find(name);
        given.map_or(default, |given| {
            given
                .f
                .unwrap_or(left_out(given, AttributeType::Float, default))
        })
    }

    pub(super) fn text(&self, name: &str, default: &'a str) -> &'a str {
        self.find(name)
            .and_then(|given| std::str::from_utf8(given.s.as_deref()?).ok())
            .unwrap_or(default)
    }

    /// A list of texts; what is no UTF-8 reads as nothing that anything is called.
    pub(super) fn texts(&self, name: &str) -> Option<Vec<&'a str>> {
        let texts = self.find(name)?.strings.iter();
        Some(
            texts
                .map(|text| std::str::from_utf8(text).unwrap_or("?"))
                .collect(),
        )
    }

    pub(super) fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.find(name).map(|given| given.ints.as_slice())
    }

    pub(super) fn floats(&self, name: &str) -> Option<&'a [f32]> {
        self.find(name).map(|given| given.floats.as_slice())
    }

    pub(super) fn tensor(&self, name: &str) -> Option<&'a TensorProto> {
        self.find(name).and_then(|given| given.t.as_deref())
    }

    /// A list of `N` numbers of at least `least`, each `default` where the node has none.
    pub(super) fn list<const N: usize>(
        &self,
        name: &str,
        default: u64,
        least: u64,
    ) -> Result<[u64; N], String> {
        let Some(given) = self.ints(name).filter(|given| !given.is_empty()) else {
            return Ok([default; N]);
        };
        let wrong = || format!("`{name}` is {given:?}: {N} numbers of at least {least} are read");
        let numbers: Vec<u64> = given
            .iter()
            .map(|&number| u64::try_from(number).ok().filter(|&number| number >= least))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        <[u64; N]>::try_from(numbers).map_err(|_| wrong())
    }
}

/// What an attribute without its number holds: nothing but zero is left out of a message.
fn left_out<T: Default>(given: &AttributeProto, r#type: AttributeType, default: T) -> T {
    if given.r#type == r#type as i32 {
        T::default()
    } else {
        default
    }
}
