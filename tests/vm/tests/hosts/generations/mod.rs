//! Updates, failures and rollbacks of generations, as an operator sees them.

mod failures;
mod releases;
mod unhealthy;
mod updates;
