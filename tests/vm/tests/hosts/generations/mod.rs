//! Generations as an operator sees them, and what goes wrong on the way.

mod as_planned;
mod failures;
mod unhealthy;
