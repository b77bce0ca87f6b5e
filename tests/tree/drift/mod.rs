//! Drift of a host after an apply: every kind is found, reported by the policy in the settings, and repaired
//! if the policy says so.

mod fragments;
mod host;
mod kinds;
mod merges;
mod repairs;
