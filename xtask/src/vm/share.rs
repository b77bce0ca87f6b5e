//! Balanced shares of the scenarios.

use std::cmp::Reverse;

use super::guest_os::GuestOs;
use crate::part_number::PartNumber;

/// Seconds per scenario, measured without KVM on two processors, two scenarios at a time. Only their
/// proportions matter.
const SECONDS: &[(&str, u32)] = &[
    ("confinement::update_to_a_policy_with_another_type_is_confined", 300),
    ("cuts::orders::automatic_rollback_survives_power_cuts", 324),
    ("cuts::orders::file_update_survives_power_cuts", 325),
    ("cuts::orders::image_update_survives_power_cuts", 309),
    ("cuts::orders::rollback_survives_power_cuts", 324),
    ("cuts::planted::config_written_after_finalization_is_detected", 200),
    ("cuts::staging::import_and_staging_survive_power_cuts", 230),
    ("cuts::steps::step_is_recognized_in_console_output_with_colours", 1),
    ("daemon::daemon_applies_desired_config_and_hands_host_over", 200),
    ("first_boot::cuts::first_boot_completes_after_power_cut_at_any_step", 259),
    ("first_boot::joins::first_boot_replaces_image_with_one_reboot_once_registry_answers", 184),
    ("first_boot::joins::first_boot_without_changes_starts_workload_without_reboot", 100),
    ("generations::failures::apply_is_refused_until_foreign_staged_deployment_boots", 204),
    ("generations::failures::boot_menu_rollback_carries_run_time_files_forward", 150),
    ("generations::failures::failed_finalization_boots_old_generation_and_is_staged_again", 200),
    ("generations::failures::full_disk_refuses_update_before_staging", 150),
    ("generations::failures::generation_booted_without_config_gets_it_before_workload", 150),
    (
        "generations::failures::unmounted_state_directory_keeps_only_an_unconfirmed_generation_from_serving",
        150,
    ),
    ("generations::releases::agent_is_exchanged_while_an_update_is_staged", 200),
    ("generations::unhealthy::failed_required_unit_rolls_back_until_retry", 278),
    ("generations::unhealthy::hanging_health_check_rolls_back", 297),
    ("generations::unhealthy::lost_network_rolls_back", 202),
    ("generations::unhealthy::lost_usr_local_rolls_back", 204),
    ("generations::unhealthy::reset_in_every_boot_rolls_back", 227),
    ("generations::unhealthy::var_that_does_not_mount_rolls_back", 260),
    ("generations::updates::image_arguments_files_units_and_keys_switch_together_and_roll_back", 357),
    ("generations::updates::update_without_image_deploys_same_commit", 324),
    ("images::image_of_the_containerfile_boots_and_updates", 420),
    ("images::image_of_the_daemon_set_adopts", 20),
    ("installations::debian_package_is_installed_upgraded_and_removed_whole", 250),
    ("installations::system_extension_updates_and_survives_a_power_cut_in_finalization", 420),
    ("kola::agent_of_another_image_reads_what_this_one_wrote", 420),
    ("kola::daemon_follows_a_directory", 260),
    ("kola::disk_of_its_own_has_var", 300),
    ("kola::every_test_of_kola_runs_here", 1),
    ("kola::failing_health_check_is_rolled_back", 400),
    ("kola::first_boot_completes_before_a_login", 200),
    ("kola::first_boot_without_changes_takes_no_reboot", 120),
    ("kola::full_disk_refuses_an_update", 150),
    ("kola::generation_that_never_ends_its_boot_check_is_rolled_back", 420),
    ("kola::installation_is_whole", 120),
    ("kola::live_update_reboots_nothing", 140),
    ("kola::lost_network_is_rolled_back", 400),
    ("kola::reset_host_boots_the_old_generation_whole", 420),
    ("kola::updates_and_a_rollback_take_one_reboot_each", 420),
    ("pages::daemon_is_started_and_operated_as_the_pages_say", 250),
    ("pages::demo_is_told_to_its_end", 420),
    ("pages::first_update_goes_as_its_page_says", 250),
];
/// Scenarios that run on hosts with SELinux as well.
pub const CONFINED: [&str; 5] = [
    "confinement::update_to_a_policy_with_another_type_is_confined",
    "daemon::daemon_applies_desired_config_and_hands_host_over",
    "first_boot::joins::first_boot_replaces_image_with_one_reboot_once_registry_answers",
    "generations::unhealthy::failed_required_unit_rolls_back_until_retry",
    "generations::updates::image_arguments_files_units_and_keys_switch_together_and_roll_back",
];
/// Last shares of a run, which take the scenarios on hosts with SELinux: their virtual machines are built in few runs.
const CONFINED_SHARES: u32 = 3;
/// Seconds of a scenario that is not in the table.
const UNKNOWN: u32 = 200;
/// Scenarios that cut the power more often, and replay more orders of writes, in an exhaustive run.
const LONGER_IF_EXHAUSTIVE: &str = "cuts::orders::";
/// Their time in an exhaustive run, in proportion to the time in other runs.
const TIMES_LONGER: u32 = 4;

/// Return the seconds that a scenario takes.
pub fn seconds(name: &str, is_exhaustive: bool) -> u32 {
    let known = SECONDS.iter().find_map(|(known, seconds)| (*known == name).then_some(*seconds));
    let is_longer = is_exhaustive && name.starts_with(LONGER_IF_EXHAUSTIVE);
    known.unwrap_or(UNKNOWN) * if is_longer { TIMES_LONGER } else { 1 }
}

/// Return the part of an operating system's scenarios that a share takes; `None` if it takes none of them.
pub fn part_of(os: GuestOs, share: PartNumber) -> Option<PartNumber> {
    let Some(plain) = share.count().checked_sub(CONFINED_SHARES).filter(|plain| *plain > 0) else {
        return Some(share);
    };
    match (os, share.index().checked_sub(plain).filter(|index| *index > 0)) {
        (GuestOs::Plain, None) => PartNumber::new(share.index(), plain).ok(),
        (GuestOs::Selinux, Some(index)) => PartNumber::new(index, CONFINED_SHARES).ok(),
        _ => None,
    }
}

/// Return the scenarios of one share. Each scenario, the longest first, goes to the share with the fewest
/// seconds so far.
pub fn assign(scenarios: &[String], share: PartNumber, is_exhaustive: bool) -> Vec<String> {
    let mut sorted: Vec<_> =
        scenarios.iter().map(|name| (Reverse(seconds(name, is_exhaustive)), name)).collect();
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
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::commit::SHARES;

    fn scenarios() -> Vec<String> {
        SECONDS.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    fn total(names: &[String], is_exhaustive: bool) -> u32 {
        names.iter().map(|name| seconds(name, is_exhaustive)).sum()
    }

    #[test]
    fn shares_are_balanced_and_contain_each_scenario_once() {
        for (is_exhaustive, counts) in [(false, [1, 2, 4, SHARES, 30]), (true, [1, 2, 4, 5, 9])] {
            for count in counts {
                let shares: Vec<_> =
                    PartNumber::all(count).map(|share| assign(&scenarios(), share, is_exhaustive)).collect();
                let all: BTreeSet<_> = shares.iter().flatten().collect();
                assert_eq!((all.len(), shares.concat().len()), (SECONDS.len(), SECONDS.len()));
                let totals: Vec<_> = shares.iter().map(|names| total(names, is_exhaustive)).collect();
                let spread = totals.iter().max().unwrap() - totals.iter().min().unwrap();
                assert!(spread <= 357, "{totals:?}");
            }
        }
    }

    #[test]
    fn share_of_a_change_takes_at_most_eight_minutes() {
        let ignored = tests_below(&folder(), |attributes| attributes.contains("#[ignore"));
        let is_run = |name: &String| !ignored.iter().any(|test| name.ends_with(&format!("::{test}")));
        let plain: Vec<String> = scenarios().into_iter().filter(is_run).collect();
        assert!(plain.len() < scenarios().len(), "{ignored:?}");
        let confined = CONFINED.map(str::to_owned);
        for share in PartNumber::all(SHARES) {
            for (os, scenarios) in [(GuestOs::Plain, &plain[..]), (GuestOs::Selinux, &confined)] {
                let names = part_of(os, share).map(|part| assign(scenarios, part, false)).unwrap_or_default();
                assert!(total(&names, false) / 2 <= 8 * 60, "{share}: {names:?}");
            }
        }
    }

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vm/tests/hosts")
    }

    /// Return the names of the functions after `#[test]` in the Rust files below `directory`, by the attributes in between.
    fn tests_below(directory: &Path, is_wanted: fn(&str) -> bool) -> Vec<String> {
        let mut names = Vec::new();
        for entry in directory.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                names.extend(tests_below(&path, is_wanted));
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                let behind = text.split("#[test]").skip(1).filter_map(|text| text.split_once("fn "));
                let wanted = behind.filter(|(attributes, _)| is_wanted(attributes));
                names.extend(wanted.filter_map(|(_, text)| Some(text.split_once('(')?.0.to_owned())));
            }
        }
        names
    }

    #[test]
    fn table_names_each_scenario_and_no_other() {
        let existing: BTreeSet<_> = tests_below(&folder(), |_| true).into_iter().collect();
        let known: BTreeSet<_> =
            SECONDS.iter().map(|(name, _)| name.rsplit("::").next().unwrap().to_owned()).collect();
        assert_eq!(known, existing, "update SECONDS");
        let unknown = CONFINED.iter().find(|name| SECONDS.iter().all(|(known, _)| known != *name));
        assert_eq!(unknown, None, "CONFINED names a scenario that does not exist");
    }
}
