//! A description of the machine, without which the figures mean nothing.

use std::process::Command;

use anyhow::{Context, Result};

use super::mounts::FileSystem;

/// Describe this machine, one item per line.
///
/// # Errors
/// `/proc/meminfo` cannot be read, or `date` fails.
pub fn description(file_system: &FileSystem) -> Result<String> {
    let kernel = rustix::system::uname();
    let cores = std::thread::available_parallelism().context("counting the cores")?;
    let cpu = first_value("/proc/cpuinfo", "model name").unwrap_or_else(|| "model unknown".to_owned());
    let memory = first_value("/proc/meminfo", "MemTotal").context("/proc/meminfo has no MemTotal")?;
    let date = Command::new("date").args(["--utc", "+%Y-%m-%d %H:%M"]).output().context("starting `date`")?;
    let date = String::from_utf8_lossy(&date.stdout);
    let cache = file_system.write_cache().unwrap_or_else(|| "unknown".to_owned());
    let items = [
        ("measured", format!("{} UTC", date.trim())),
        ("cores", format!("{cores}, {cpu}")),
        ("memory", memory),
        ("kernel", format!("{} {}", kernel.sysname().to_string_lossy(), kernel.release().to_string_lossy())),
        ("file system", file_system.to_string()),
        ("write cache of its device", cache),
    ];
    Ok(items.map(|(name, value)| format!("- {name}: {value}\n")).concat())
}

/// Return the first value of `key` in a file of lines such as `key : value`.
fn first_value(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let (_, value) =
        text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == key)?;
    Some(value.trim().to_owned())
}
