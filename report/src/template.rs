//! The templates: strict about what is missing, and about every character that comes from data.

use minijinja::{
    AutoEscape, Environment, Error, Output, State, UndefinedBehavior, Value, escape_formatter,
    syntax::SyntaxConfig,
};
use serde::Serialize;

use crate::{ReportError, embed, text};

/// Every page's shape.
pub(crate) struct Templates(Environment<'static>);

impl Templates {
    pub(crate) fn new() -> Result<Self, ReportError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_syntax(syntax()?);
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_formatter(cleaning_formatter);
        environment.add_filter("sentence", sentence);
        for (name, source) in embed::TEMPLATES {
            environment
                .add_template(name, source)
                .map_err(|error| failure(name, &error))?;
        }
        Ok(Self(environment))
    }

    /// The page that `template` makes of `view`.
    pub(crate) fn render(
        &self,
        template: &str,
        view: &impl Serialize,
    ) -> Result<String, ReportError> {
        self.0
            .get_template(template)
            .and_then(|template| template.render(minijinja::value::Serde(view)))
            .map_err(|error| failure(template, &error))
    }
}

/// A clause that begins a sentence, which what is no plain word does as it is written: engines' names.
fn sentence(clause: String) -> String {
    let (first, _) = clause.split_once([' ', ':']).unwrap_or((&clause, ""));
    let is_plain = first.chars().all(|letter| letter.is_ascii_lowercase());
    let mut rest = clause.chars();
    match rest.next().filter(|_| is_plain) {
        Some(first) => first.to_uppercase().chain(rest).collect(),
        None => clause,
    }
}

/// Tags leave no empty lines behind.
fn syntax() -> Result<SyntaxConfig, ReportError> {
    SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .map_err(|error| failure("the templates", &error))
}

/// Makes acting characters visible and escapes markup: the one gate through which all text passes.
fn cleaning_formatter(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    match value.as_str() {
        Some(text) if !value.is_safe() => {
            write_escaped(out, &text::clean(text)).map_err(Error::from)
        }
        _ => escape_formatter(out, state, value),
    }
}

/// Writes text for an element's content or a quoted attribute.
fn write_escaped(out: &mut Output<'_>, text: &str) -> std::fmt::Result {
    let mut rest = text;
    while let Some(place) = rest.find(['&', '<', '>', '"', '\'']) {
        let (before, special) = rest.split_at(place);
        out.write_str(before)?;
        let mut after = special.chars();
        out.write_str(match after.next() {
            Some('&') => "&amp;",
            Some('<') => "&lt;",
            Some('>') => "&gt;",
            Some('"') => "&quot;",
            _ => "&#39;",
        })?;
        rest = after.as_str();
    }
    out.write_str(rest)
}

fn failure(page: &str, error: &Error) -> ReportError {
    let mut message = format!("{error:#}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message += &format!(": {cause}");
        source = cause.source();
    }
    ReportError::Template {
        page: page.to_owned(),
        message,
    }
}
