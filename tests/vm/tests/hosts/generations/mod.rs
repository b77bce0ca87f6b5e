//! Generations as an operator sees them, and what goes wrong on the way.

mod failures;
mod unhealthy;
mod updates;
