//! Resources that this process uses, from `/proc/self`.

use std::fs;

/// Unit of CPU times in `/proc`, per second: `USER_HZ`, which is 100 on every architecture of OSTree hosts.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time, memory and files of this process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessUsage {
    /// CPU time in user and kernel mode, in seconds.
    pub cpu_seconds: f64,
    /// Start, in seconds since 1970.
    pub start_time: u64,
    pub resident_bytes: u64,
    pub open_files: u64,
}

impl ProcessUsage {
    /// Measure the usage; `None` without `/proc`.
    #[must_use]
    pub fn measure() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let system = fs::read_to_string("/proc/stat").ok()?;
        let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        let memory = fs::read_to_string("/proc/self/status").ok()?;
        let resident = memory.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"))?;
        let resident_bytes = resident.trim().parse::<u64>().ok()? * 1024;
        let open_files = u64::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()?;
        let (cpu_seconds, start_time) = times(&stat, boot)?;
        Some(Self { cpu_seconds, start_time, resident_bytes, open_files })
    }
}

/// CPU time and start of a process by the fields of `/proc/PID/stat`, for a kernel that booted at `boot`.
fn times(fields: &str, boot: u64) -> Option<(f64, u64)> {
    // Behind the name, which may hold any character. The first field there is the third of the line.
    let (_, fields) = fields.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let [in_user, in_kernel, start] = [field(14)?, field(15)?, field(22)?];
    #[allow(clippy::cast_precision_loss, reason = "centuries of CPU time fit")]
    let cpu_seconds = (in_user + in_kernel) as f64 / TICKS_PER_SECOND as f64;
    Some((cpu_seconds, boot + start / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 100 50 0 0 20 0 1 0 1000 8192 3 9 9\n";
        assert_eq!(times(stat, 1000), Some((1.5, 1010)));
        assert_eq!(times("7 (a) S", 0), None);
        let own = ProcessUsage::measure().unwrap();
        assert!(own.open_files > 2 && own.resident_bytes > 0 && own.start_time > 1_000_000_000, "{own:?}");
    }
}
