//! Reading typed values from a [`Node`], so that every error knows its place.

use std::ops::Range;

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
};

use crate::{
    fault::{Fault, cut},
    suggest,
    tree::{Entry, Kind, Node},
};

/// Most errors shown for one file.
const FAULT_LIMIT: usize = 20;

/// The `T` that `root` says.
///
/// # Errors
/// Everything that keeps `root` from being a `T`. After each error the smallest part that holds it
/// is taken out and reading starts again, so that one run shows all errors. What is missing only
/// because it was taken out is not reported.
pub(crate) fn read<T: for<'a> Deserialize<'a>>(root: &Node) -> Result<T, Vec<Fault>> {
    let mut next = match T::deserialize(root) {
        Ok(value) => return Ok(value),
        Err(fault) => Some(fault),
    };
    let mut root = root.clone();
    let mut faults: Vec<Fault> = Vec::new();
    let mut pruned = Pruned::default();
    // Each turn takes something out; the bound is for what cannot be reported.
    for _ in 0..4 * FAULT_LIMIT {
        let Some(fault) = next else {
            break;
        };
        let place = fault.span.clone().unwrap_or_else(|| root.span.clone());
        // The first fault is never one of these: nothing was taken out before.
        let is_echo = pruned.explains(&fault, &place);
        let fault = fault.at(&place);
        // An alias is read wherever it stands, and told of once.
        if !is_echo && !faults.contains(&fault) {
            faults.push(fault);
        }
        if faults.len() >= FAULT_LIMIT || !prune(&mut root, &place, &mut pruned) {
            break;
        }
        next = T::deserialize(&root).err();
    }
    faults.sort_by_key(|fault| fault.span.as_ref().map(|span| span.start));
    Err(faults)
}

/// What was taken out of mappings.
#[derive(Default)]
struct Pruned {
    /// The keys, each with the start of its mapping.
    keys: Vec<(usize, String)>,
    /// The mappings that have nothing left.
    emptied: Vec<Range<usize>>,
}

impl Pruned {
    /// Whether a fault is there only for what was taken out.
    fn explains(&self, fault: &Fault, place: &Range<usize>) -> bool {
        let is_missing = |key: &str| {
            let mut keys = self.keys.iter();
            keys.any(|(start, known)| *start == place.start && known == key)
        };
        fault
            .missing
            .map_or_else(|| self.emptied.contains(place), is_missing)
    }
}

/// Takes out the smallest entry or item that holds `place`; false if there is none.
fn prune(node: &mut Node, place: &Range<usize>, pruned: &mut Pruned) -> bool {
    let holds = |span: &Range<usize>| span.start <= place.start && place.end <= span.end;
    let span = node.span.clone();
    match std::sync::Arc::make_mut(&mut node.kind) {
        Kind::Scalar { .. } => false,
        Kind::List(items) => {
            let Some(index) = items.iter().position(|item| holds(&item.span)) else {
                return false;
            };
            let done = items
                .get_mut(index)
                .is_some_and(|item| item.span != *place && prune(item, place, pruned));
            if !done {
                items.remove(index);
            }
            true
        }
        Kind::Map(entries) => {
            let held = |entry: &Entry| holds(&entry.key_span) || holds(&entry.value.span);
            let Some(index) = entries.iter().position(held) else {
                return false;
            };
            let done = entries.get_mut(index).is_some_and(|entry| {
                !holds(&entry.key_span)
                    && entry.value.span != *place
                    && prune(&mut entry.value, place, pruned)
            });
            if !done {
                pruned.keys.push((span.start, entries.remove(index).key));
                if entries.is_empty() {
                    pruned.emptied.push(span);
                }
            }
            true
        }
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &*self.kind {
            Kind::Scalar { text, plain: true } => {
                plain(text, visitor).map_err(|fault: Fault| fault.quoting(text))
            }
            Kind::Scalar { text, plain: false } => visitor.visit_borrowed_str(text),
            Kind::List(items) => visitor.visit_seq(Items(items.iter())),
            Kind::Map(entries) => visitor.visit_map(Entries {
                rest: entries.iter(),
                value: None,
            }),
        }
        .map_err(|fault: Fault| fault.at(&self.span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &*self.kind {
            Kind::Scalar { text, plain: true } if is_null(text) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
        .map_err(|fault: Fault| fault.at(&self.span))
    }

    /// A text is a text, even if it looks like a number.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &*self.kind {
            Kind::Scalar { text, plain } if !(*plain && is_null(text)) => visitor
                .visit_borrowed_str(text)
                .map_err(|fault: Fault| fault.at(&self.span)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let found = match &*self.kind {
            Kind::Scalar { text, .. } => {
                return visitor
                    .visit_enum(text.as_str().into_deserializer())
                    .map_err(|fault: Fault| fault.at(&self.span));
            }
            Kind::List(_) => de::Unexpected::Seq,
            Kind::Map(_) => de::Unexpected::Map,
        };
        let fault: Fault = de::Error::invalid_type(found, &"one word");
        let known = suggest::among("", variants.iter().copied(), "known values");
        Err(fault.help(known).at(&self.span))
    }

    /// A list is no mapping, though `serde` would fill fields from it in order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if matches!(*self.kind, Kind::List(_)) {
            let fault: Fault = de::Error::invalid_type(de::Unexpected::Seq, &visitor);
            return Err(fault.at(&self.span));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// YAML 1.2's core schema for what is written without quotes.
fn plain<'de, V: Visitor<'de>>(text: &'de str, visitor: V) -> Result<V::Value, Fault> {
    match text {
        _ if is_null(text) => return visitor.visit_unit(),
        "true" | "True" | "TRUE" => return visitor.visit_bool(true),
        "false" | "False" | "FALSE" => return visitor.visit_bool(false),
        ".nan" | ".NaN" | ".NAN" => return visitor.visit_f64(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return visitor.visit_f64(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return visitor.visit_f64(f64::NEG_INFINITY),
        _ => {}
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let has_leading_zero = digits.len() > 1
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && digits.starts_with('0');
    if !is_number || has_leading_zero {
        return visitor.visit_borrowed_str(text);
    }
    if let Some(number) = integer(text) {
        // What no integer type of ours holds is a number all the same.
        return match (u64::try_from(number), i64::try_from(number)) {
            (Ok(number), _) => visitor.visit_u64(number),
            (_, Ok(number)) => visitor.visit_i64(number),
            _ => visitor.visit_f64(number as f64),
        };
    }
    match text.parse::<f64>() {
        Ok(0.0) if has_other_digits_than_zero(text) => Err(de::Error::custom(format_args!(
            "the number `{}` is too small to be told from 0",
            cut(text)
        ))),
        // The sign of a zero means nothing here, and makes two cells of one.
        Ok(0.0) => visitor.visit_f64(0.0),
        Ok(number) if number.is_finite() => visitor.visit_f64(number),
        Ok(_) => Err(de::Error::custom(format_args!(
            "the number `{}` is too large",
            cut(text)
        ))),
        Err(_) => visitor.visit_borrowed_str(text),
    }
}

/// Whether a decimal number, its exponent apart, is not 0 as it is written.
fn has_other_digits_than_zero(number: &str) -> bool {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    mantissa.contains(|c: char| ('1'..='9').contains(&c))
}

/// An integer in any of the core schema's notations.
fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let radix = [("0x", 16), ("0o", 8), ("0b", 2)];
    let noted = radix
        .iter()
        .find_map(|(prefix, radix)| Some((digits.strip_prefix(prefix)?, *radix)));
    let (digits, radix) = noted.unwrap_or((digits, 10));
    let magnitude = match digits.starts_with(['+', '-']) {
        true => return None,
        false => i128::from_str_radix(digits, radix).ok()?,
    };
    magnitude.checked_mul(sign)
}

struct Items<'de>(std::slice::Iter<'de, Node>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(item) = self.0.next() else {
            return Ok(None);
        };
        seed.deserialize(item)
            .map(Some)
            .map_err(|fault| fault.at(&item.span))
    }
}

struct Entries<'de> {
    rest: std::slice::Iter<'de, Entry>,
    value: Option<&'de Node>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some(entry) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some(&entry.value);
        seed.deserialize(entry.key.as_str().into_deserializer())
            .map(Some)
            .map_err(|fault: Fault| fault.at(&entry.key_span))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some(value) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        seed.deserialize(value)
            .map_err(|fault| fault.at(&value.span))
    }
}
