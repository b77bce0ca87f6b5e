//! Alerts that the machine-config-operator ships, and the project's own, on scrapes of the daemon in the states that they are for, and in
//! those that they are not for.

use serde_json::json;
use testbed::booted::config::full_config;
use testbed::control_plane::Cluster;
use testbed::dbus::fake_logind::{Fault, Script};
use testbed::promtool::{OPERATOR_RULES, OWN_RULES, assert_alerts};

#[test]
fn alerts_of_missing_configs_and_images_fire_for_these_only() {
    testbed::preconditions::require_installed(&["promtool"]);
    let (host, cluster) = Cluster::with_node_on("one");
    let mut irreconcilable = full_config("fips").json().clone();
    irreconcilable["spec"]["fips"] = json!(true);
    cluster.render(&irreconcilable);
    let mut imageless = full_config("two").json().clone();
    imageless["spec"]["osImageURL"] = json!("ostree-unverified-image:oci:/run/media/missing:2");
    cluster.render(&imageless);
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    assert_alerts(&OPERATOR_RULES, &agent.metrics(), &[]);
    assert_alerts(&OWN_RULES, &agent.metrics(), &[]);
    cluster.set_desired_config("rendered-none");
    agent.wait_for_line("BackingOff rendered-none");
    let metrics = agent.metrics();
    assert!(metrics.contains("mcd_missing_mc{mc=\"rendered-none\"} 1\n"), "{metrics}");
    assert_alerts(&OPERATOR_RULES, &metrics, &["MissingMachineConfig"]);
    cluster.set_desired_config("rendered-fips");
    agent.wait_for_line("BackingOff rendered-fips");
    let metrics = agent.metrics();
    assert!(metrics.contains("mcd_state{state=\"Unreconcilable\",reason=\"configuration\"}"), "{metrics}");
    assert!(metrics.contains("flameholder_attempts_total{result=\"failure\",class=\"configuration\"} 1\n"));
    assert_alerts(&OPERATOR_RULES, &metrics, &[]);
    assert_alerts(&OWN_RULES, &metrics, &["FlameholderUnreconcilable"]);
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("BackingOff rendered-two");
    let metrics = agent.metrics();
    assert!(metrics.contains("mcd_pivot_errors_total 1\n"), "{metrics}");
    assert_alerts(&OPERATOR_RULES, &metrics, &["MCDPivotError"]);
    host.write_etc("app/a.conf", "changed");
    cluster.set_desired_config("rendered-one");
    agent.wait_for_line("Drifted rendered-one");
    assert_alerts(&OWN_RULES, &agent.metrics(), &["FlameholderDrift"]);
    host.write_etc("app/a.conf", "one");
    agent.wait_for_line("Done rendered-one");
    let metrics = agent.metrics();
    assert_alerts(&OPERATOR_RULES, &metrics, &[]);
    assert_alerts(&OWN_RULES, &metrics, &[]);
    for series in [
        "flameholder_config_info{which=\"current\",config=\"rendered-one\"} 1\n",
        "flameholder_config_info{which=\"desired\",config=\"rendered-one\"} 1\n",
        "flameholder_generation_info{generation=\"",
        "flameholder_drift_paths{policy=\"report\"} 0\n",
        "flameholder_api_requests_total{code=\"404\"} ",
        "flameholder_phase_seconds_total{phase=\"Drifted\"} ",
        "flameholder_free_bytes{mount=\"",
        "flameholder_source_up 1\n",
        "process_resident_memory_bytes ",
    ] {
        assert!(metrics.contains(series), "{series}: {metrics}");
    }
}

#[test]
fn alert_of_failed_reboots_fires_for_a_reboot_that_logind_refuses() {
    testbed::preconditions::require_installed(&["promtool"]);
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    let fault = Some(("RebootWithFlags", Fault::Denies));
    let mut agent = cluster.start_agent_with_logind(&host, Script { fault, ..Script::default() });
    agent.wait_for_line("Done rendered-one");
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("BackingOff rendered-two");
    let metrics = agent.metrics();
    assert!(metrics.contains("mcd_reboots_failed_total 1\n"), "{metrics}");
    assert_alerts(&OPERATOR_RULES, &metrics, &["MCDRebootError"]);
    assert_alerts(&OWN_RULES, &metrics, &["FlameholderDegraded", "FlameholderRebootFailed"]);
}
