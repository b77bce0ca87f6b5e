//! Parsers of outside input, each with what must hold of any input: a value or a refusal, never a panic; what is written
//! again from a value is read as the same value; a plan from a config to itself is empty.
//!
//! `fuzz/` calls the checks with generated inputs, and a test with those of `corpus/`, a folder per check.
#![allow(clippy::panic, reason = "a fuzzer finds a broken promise by its panic")]

mod configs;
mod host_files;
mod own_documents;
mod pinned_images;
mod trust;

/// Check of one parser.
#[derive(Debug, Clone, Copy)]
pub struct InputCheck {
    /// Name of the fuzz target and of the corpus.
    pub name: &'static str,
    /// Panics if a promise is broken.
    pub check: fn(&[u8]),
}

/// All checks, by name.
pub const CHECKS: [InputCheck; 18] = [
    InputCheck { name: "accounts", check: host_files::accounts },
    InputCheck { name: "data_url", check: configs::data_url },
    InputCheck { name: "ignition", check: configs::ignition },
    InputCheck { name: "image_policy", check: host_files::image_policy },
    InputCheck { name: "image_reference", check: host_files::image_reference },
    InputCheck { name: "journal", check: own_documents::journal },
    InputCheck { name: "kernel_arguments", check: host_files::kernel_arguments },
    InputCheck { name: "kubeconfig", check: trust::kubeconfig },
    InputCheck { name: "machine_config", check: configs::machine_config },
    InputCheck { name: "node_disruption_policy", check: configs::node_disruption_policy },
    InputCheck { name: "pending", check: own_documents::pending },
    InputCheck { name: "pinned_images", check: pinned_images::pinned_images },
    InputCheck { name: "registries", check: host_files::registries },
    InputCheck { name: "settings", check: host_files::settings },
    InputCheck { name: "state_documents", check: own_documents::state_documents },
    InputCheck { name: "trust_material", check: trust::trust_material },
    InputCheck { name: "units", check: host_files::units },
    InputCheck { name: "worker_protocol", check: own_documents::worker_protocol },
];

/// Run the check of this name.
///
/// # Panics
/// The check fails, or there is none of this name.
pub fn check(name: &str, input: &[u8]) {
    let Some(found) = CHECKS.iter().find(|check| check.name == name) else {
        panic!("no check is called {name}")
    };
    (found.check)(input);
}

/// Split the input at the first NUL, for checks of two texts.
fn halves(input: &[u8]) -> (&[u8], &[u8]) {
    let middle = input.iter().position(|byte| *byte == 0);
    middle.map_or((input, &[][..]), |middle| {
        let (first, second) = input.split_at(middle);
        (first, second.get(1..).unwrap_or_default())
    })
}
