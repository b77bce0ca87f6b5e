//! Links that would make root write elsewhere: planted before an apply, and swapped in during one.

mod arena;
mod planted;
mod racer;
mod swapped;
