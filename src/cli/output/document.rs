//! Documents on standard output: a command's result as JSON or YAML.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_saphyr::SerializerOptions;

use crate::cli::CliError;
use crate::cli::output::terminal::write_out;
use crate::core::values::foreign_text::{escaped_json, harmless};

/// Option for the form of a command's result.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct OutputArgs {
    /// Form of the result; `flameholder schema` describes the documents
    #[arg(short = 'o', long = "output", value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) format: OutputFormat,
}

/// Form of a command's result on standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    #[default]
    Text,
    Document(DocumentNotation),
}

/// Notation of a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentNotation {
    /// JSON
    #[default]
    Json,
    /// YAML
    Yaml,
}

impl ValueEnum for OutputFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Text, Self::Document(DocumentNotation::Json), Self::Document(DocumentNotation::Yaml)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Text => Some(PossibleValue::new("text").help("Plain text, coloured on a terminal")),
            Self::Document(notation) => notation.to_possible_value(),
        }
    }
}

impl DocumentNotation {
    /// Print a document. Text in it cannot steer the terminal.
    pub(crate) fn print(self, document: &impl Serialize) -> Result<(), CliError> {
        let json = || {
            let text = serde_json::to_string_pretty(document).expect("keys of a document are strings");
            format!("{}\n", escaped_json(&text))
        };
        write_out(&match self {
            Self::Json => json(),
            Self::Yaml => {
                let text = yaml(document);
                // YAML has characters in their own form that steer a terminal, and it takes JSON too, which escapes them.
                let body = if harmless(&text) == text { text } else { json() };
                // Documents may follow each other, as those of `status --watch` do.
                format!("---\n{body}")
            }
        })
    }
}

fn yaml(document: &impl Serialize) -> String {
    let mut options = SerializerOptions::default();
    // A folded line is hard to copy.
    options.folded_wrap_chars = usize::MAX;
    serde_saphyr::to_string_with_options(document, options).expect("keys of a document are strings")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::yaml;
    use crate::core::config::document;

    #[test]
    fn yaml_is_read_as_the_same_document() {
        let long = "word ".repeat(60);
        for value in [
            json!({"a": null, "b": [], "c": {}, "d": [1, -2, 0.5, true], "e": {"f": [{"g": "h"}]}}),
            json!({"text": ["", " ", "yes", "NO", "~", "null", "0644", "1e3", "1:30", ".inf", "2026-11-27", "=", "- a"]}),
            json!({"text": ["a: b", "a #b", "#", "&a", "*a", "!a", "%a", "@a", "`a", "'", "\"", "\\", "{", "[", "|", ">"]}),
            json!({"text": ["a\nb\n", "\n", "a\n\n", " a\nb", "a\tb", "trailing ", "größer → 日本", long]}),
            json!({"message": format!("{long}\n{long}\n"), "12": "key", "true": 1}),
        ] {
            let text = yaml(&value);
            assert_eq!(document::parse(format!("---\n{text}").as_bytes()).unwrap(), value, "{text}");
        }
    }
}
