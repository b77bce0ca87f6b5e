//! Document that `-o json` prints where a command fails (`docs/schema/error.json`).

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::values::refusal::Refusal;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// Failure of a command, in place of its result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorDocument {
    /// Version of this document. Members may be added within a version; a member that changes its meaning
    /// makes a new one.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    error: ErrorItem,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ErrorItem {
    /// Exit code of the command.
    #[schemars(range(min = 1))]
    code: u8,
    /// Failed operation, causes and way out, as on standard error.
    #[schemars(length(min = 1))]
    message: String,
    /// Problems of the document that is refused, in its order; one without a field for every other failure.
    #[schemars(length(min = 1))]
    problems: Vec<ProblemItem>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProblemItem {
    /// Path of the field, such as `spec.config.storage.files[3].mode`; null where the problem is of no field.
    #[schemars(length(min = 1))]
    field: Option<String>,
    /// Error and, where it helps, the accepted values.
    #[schemars(length(min = 1))]
    message: String,
    /// Line of the document, from 1; null where it is not known.
    line: Option<u64>,
    /// Character in the line, from 1; null where it is not known.
    column: Option<u64>,
}

impl ErrorDocument {
    /// Describe a failure with this exit code and this message. `refusals` are the problems of a refused document.
    #[must_use]
    pub fn of(code: u8, message: String, refusals: &[Refusal]) -> Self {
        let mut problems: Vec<ProblemItem> = refusals.iter().map(ProblemItem::of).collect();
        if problems.is_empty() {
            problems.push(ProblemItem { field: None, message: message.clone(), line: None, column: None });
        }
        Self { schema: SCHEMA, error: ErrorItem { code, message, problems } }
    }
}

impl ProblemItem {
    fn of(refusal: &Refusal) -> Self {
        let Refusal { field, reason, place, .. } = refusal;
        Self {
            field: (!field.is_empty()).then(|| field.clone()),
            message: reason.clone(),
            line: place.map(|place| place.line),
            column: place.map(|place| place.column),
        }
    }
}
