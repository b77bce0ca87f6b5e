//! Configs of a cluster or an operator.

use flameholder::core::config::butane::NoLocalFiles;
use flameholder::core::config::contents::ContentsDecoder;
use flameholder::core::config::ignition::remote_contents::RemoteContents;
use flameholder::core::config::machine_config::{self, MachineConfig};
use flameholder::core::config::received::{self, ReferencedContents};
use flameholder::core::config::{decode, machine_configuration};
use flameholder::core::plan::Plan;
use flameholder::core::values::profile::Profile;
use flameholder::core::values::refusal::RefusalList;

use crate::halves;

/// Longest field that a refusal may name, in bytes: a hostile document must not flood a journal.
const LONGEST_REFUSAL: usize = 1 << 20;

pub(crate) fn machine_config(input: &[u8]) {
    match machine_config::parse(input) {
        Ok(config) => check_config(&config),
        Err(refusals) => check_refusals(&refusals),
    }
}

pub(crate) fn ignition(input: &[u8]) {
    let referenced = ReferencedContents { local: &NoLocalFiles, remote: &RemoteContents::default() };
    match received::parse(input, received::DEFAULT_STEM, referenced) {
        Ok(received) => check_config(&received.config),
        Err(unresolved) => check_refusals(&unresolved.refusals()),
    }
}

pub(crate) fn node_disruption_policy(input: &[u8]) {
    if let Err(refusals) = machine_configuration::parse_policy(input) {
        check_refusals(&refusals);
    }
}

/// The input is a URL and, behind a NUL, a compression.
pub(crate) fn data_url(input: &[u8]) {
    let (url, compression) = halves(input);
    let (Ok(url), Ok(compression)) = (std::str::from_utf8(url), std::str::from_utf8(compression)) else {
        return;
    };
    let plain = ContentsDecoder::default().decode(Some(url), None);
    let compressed = ContentsDecoder::default().decode(Some(url), Some(compression));
    if compression.is_empty() {
        assert_eq!(plain.is_ok(), compressed.is_ok(), "no compression is the same as none");
    }
}

fn check_config(config: &MachineConfig) {
    if let Err(refusals) = decode::decode_applied(config) {
        check_refusals(&refusals);
    }
    let host = match decode::decode(config) {
        Ok(host) => host,
        Err(refusals) => return check_refusals(&refusals),
    };
    for profile in [Profile::Mcd, Profile::Native] {
        let Ok(plan) = Plan::between(Some(&host), &host, profile) else { continue };
        let is_quiet = !plan.disruption.drain && !plan.disruption.reboots();
        assert!(plan.diff.is_empty() && is_quiet, "a plan from a config to itself: {plan:?}");
    }
}

fn check_refusals(refusals: &RefusalList) {
    assert!(!refusals.as_slice().is_empty(), "a refusal without a reason");
    for refusal in refusals.as_slice() {
        assert!(refusal.field.len() <= LONGEST_REFUSAL, "a field of {} bytes", refusal.field.len());
    }
}
