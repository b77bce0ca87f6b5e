//! Trial of a small fleet: all its parts, and the figures that do not depend on the size.

mod cluster {
    use std::process::Command;

    /// Figure of a row of the table, in this column.
    fn figure(table: &str, label: &str, column: usize) -> Option<f64> {
        let row = table.lines().find(|line| line.contains(label))?;
        row.split('|').nth(column + 2)?.trim().parse().ok()
    }

    #[test]
    fn small_fleets_join_follow_a_config_and_survive_the_api_server() {
        let trial = Command::new(env!("CARGO_BIN_EXE_scale"))
            .args(["--operator", "8", "--pool", "8", "--rest", "2", "--outage", "3"])
            .output()
            .unwrap();
        let (table, said) = (String::from_utf8_lossy(&trial.stdout), String::from_utf8_lossy(&trial.stderr));
        assert!(trial.status.success(), "{said}");
        for (column, (watches, identities)) in [(3.0, 2.0), (2.0, 1.0)].into_iter().enumerate() {
            // The components of the cluster watch too.
            let open = figure(&table, "watches per agent", column).unwrap();
            assert!((watches..watches + 0.5).contains(&open), "{table}");
            // So do their connections count, of which a busy one has several.
            let connections = figure(&table, "connections per agent", column).unwrap();
            assert!((identities..identities + watches).contains(&connections), "{table}");
            let requests = figure(&table, "update: requests per agent", column).unwrap();
            assert!((1.0..60.0).contains(&requests), "{table}");
            assert!(figure(&table, "update: events of watches per agent", column) >= Some(1.0), "{table}");
        }
    }
}
