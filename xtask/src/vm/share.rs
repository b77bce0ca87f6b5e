//! Balanced shares of the scenarios.

use std::cmp::Reverse;

use crate::part_number::PartNumber;

/// Seconds of the scenarios, measured without KVM on two processors, two scenarios at a time. Only their
/// proportions matter.
const SECONDS: &[(&str, u32)] = &[
    ("cuts::moments::the_console_is_followed_through_its_colours", 1),
    ("cuts::orders::a_rollback", 324),
    ("cuts::orders::an_update_of_everything", 309),
    ("cuts::orders::an_update_of_files", 325),
    ("cuts::orders::what_is_not_healthy_is_left", 324),
    ("cuts::planted::binding_after_finalization_is_found_out", 200),
    ("cuts::staging::an_import_and_a_staging", 230),
    ("daemon::the_daemon_and_a_handover", 200),
    ("first_boot::cuts::a_first_boot_goes_on_wherever_it_was_cut", 259),
    ("first_boot::joins::from_image_to_image_with_one_reboot_once_the_registry_answers", 184),
    ("first_boot::joins::without_anything_to_do_the_workload_starts_in_the_first_boot", 100),
    ("generations::as_planned::a_change_without_an_image_is_a_deployment_of_the_same_commit", 324),
    ("generations::as_planned::image_arguments_files_units_and_keys_switch_together_and_back", 357),
    ("generations::failures::a_deployment_of_somebody_else_is_told_apart", 204),
    ("generations::failures::full_disks_are_found_before_anything_is_disturbed", 150),
    ("generations::failures::the_boot_menu_leads_back_with_what_runs_carried_over", 150),
    ("generations::failures::what_boots_unbound_is_bound_and_rebooted_before_anything_starts", 150),
    ("generations::failures::what_cannot_be_bound_leaves_the_old_system_and_is_staged_again", 200),
    ("generations::failures::without_var_the_workload_does_not_start", 150),
    ("generations::unhealthy::a_check_hangs", 297),
    ("generations::unhealthy::a_required_unit_fails_until_somebody_says_to_try_again", 278),
    ("generations::unhealthy::every_boot_of_it_ends_at_once", 227),
    ("generations::unhealthy::the_network_breaks", 202),
    ("generations::unhealthy::usr_local_is_lost", 204),
    ("kola::updates_and_goes_back", 235),
];
/// The assumption for a scenario that is not in the table.
const UNKNOWN: u32 = 200;

/// Return the seconds that a scenario takes.
pub fn seconds(name: &str) -> u32 {
    SECONDS.iter().find_map(|(known, seconds)| (*known == name).then_some(*seconds)).unwrap_or(UNKNOWN)
}

/// Return the scenarios of one share: each scenario, the longest first, goes to the share with the least to
/// do.
pub fn assign(scenarios: &[String], share: PartNumber) -> Vec<String> {
    let mut sorted: Vec<_> = scenarios.iter().map(|name| (Reverse(seconds(name)), name)).collect();
    sorted.sort();
    let mut shares: Vec<(u32, PartNumber, Vec<String>)> =
        PartNumber::all(share.count()).map(|share| (0, share, Vec::new())).collect();
    for (Reverse(seconds), name) in sorted {
        if let Some((total, _, names)) = shares.iter_mut().min_by_key(|(total, share, _)| (*total, *share)) {
            *total += seconds;
            names.push(name.clone());
        }
    }
    shares.into_iter().find(|(_, number, _)| *number == share).map(|(_, _, names)| names).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::vm::SHARES;

    fn scenarios() -> Vec<String> {
        SECONDS.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    fn total(names: &[String]) -> u32 {
        names.iter().map(|name| seconds(name)).sum()
    }

    #[test]
    fn shares_are_balanced_and_contain_each_scenario_once() {
        for count in [1, 2, 4, SHARES, 30] {
            let shares: Vec<_> = PartNumber::all(count).map(|share| assign(&scenarios(), share)).collect();
            let all: BTreeSet<_> = shares.iter().flatten().collect();
            assert_eq!((all.len(), shares.concat().len()), (SECONDS.len(), SECONDS.len()));
            let totals: Vec<_> = shares.iter().map(|names| total(names)).collect();
            let spread = totals.iter().max().unwrap() - totals.iter().min().unwrap();
            assert!(spread <= 357, "{totals:?}");
        }
    }

    #[test]
    fn share_of_a_change_takes_at_most_eight_minutes() {
        for share in PartNumber::all(SHARES) {
            let names = assign(&scenarios(), share);
            assert!(total(&names) / 2 <= 8 * 60, "{share}: {names:?}");
        }
    }

    /// The names of the functions behind `#[test]` in the Rust files below `directory`.
    fn tests_below(directory: &Path) -> Vec<String> {
        let mut names = Vec::new();
        for entry in directory.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                names.extend(tests_below(&path));
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                let behind = text.split("#[test]").skip(1).filter_map(|text| text.split_once("fn "));
                names.extend(behind.filter_map(|(_, text)| Some(text.split_once('(')?.0.to_owned())));
            }
        }
        names
    }

    #[test]
    fn table_names_each_scenario_and_no_other() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vm/tests/hosts");
        let existing: BTreeSet<_> = tests_below(&directory).into_iter().collect();
        let known: BTreeSet<_> =
            SECONDS.iter().map(|(name, _)| name.rsplit("::").next().unwrap().to_owned()).collect();
        assert_eq!(known, existing, "update SECONDS");
    }
}
