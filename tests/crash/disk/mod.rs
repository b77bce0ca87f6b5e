//! The disk in memory beside the product: its comparison with a real one, what a reader sees of it, and a screen before
//! each act of the port.

mod differential;
pub(crate) mod effect;
pub(crate) mod reader;
pub(crate) mod sight;
