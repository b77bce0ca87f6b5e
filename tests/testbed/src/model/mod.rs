//! A model of the product, written from its specification.

pub mod config;
pub mod document;
pub mod judge;
pub mod likeness;
pub mod pairs;
pub mod plan;
pub mod reference;
pub mod refused;
pub mod rendered;
pub mod run;
pub mod settled;
pub mod snapshot;
pub mod tree;
