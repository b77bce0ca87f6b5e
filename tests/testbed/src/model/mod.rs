//! Model of the product, written from its specification.

pub mod applied_tree;
pub mod comparison;
pub mod config;
pub mod document;
pub mod model_tree;
pub mod pairs;
pub mod plan;
pub mod refused;
pub mod rendered;
pub mod run;
pub mod snapshot;
pub mod tree;
pub mod verdict;
