//! What becomes of a host after an apply: every kind of deviation is found, judged by the settings, and
//! repaired where they say so.

mod fragments;
mod host;
mod kinds;
mod repairs;
