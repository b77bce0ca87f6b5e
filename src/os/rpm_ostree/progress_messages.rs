//! Progress and waits of a transaction, parsed from its messages for humans: rpm-ostreed reports no byte counts for
//! container images.

use super::transaction::RpmOstreeEvent;
use crate::os::{PullPhase, PullProgress};

/// Part of the message that announces number and total size of the layers to fetch.
const NEEDED: &str = "layers needed: ";
/// First words of tasks that process one layer.
const LAYER_TASKS: [&str; 2] = ["Fetching", "Importing"];

/// Progress so far.
#[derive(Debug, Clone)]
pub(super) struct TransactionProgress {
    progress: PullProgress,
    /// Bytes of the layer that is being processed.
    current: Option<u64>,
}

impl TransactionProgress {
    pub(super) fn nothing() -> Self {
        let progress =
            PullProgress { phase: PullPhase::Manifest, layers_done: 0, layers: 0, bytes_done: 0, bytes: 0 };
        Self { progress, current: None }
    }

    /// Take an event into account. `None` if it says nothing about progress.
    pub(super) fn update(&mut self, event: &RpmOstreeEvent) -> Option<PullProgress> {
        let progress = &mut self.progress;
        match event {
            RpmOstreeEvent::Message(text) => {
                let (layers, bytes) = needed(text)?;
                progress.layers += layers;
                progress.bytes += bytes;
                progress.phase = PullPhase::Layers;
            }
            RpmOstreeEvent::TaskBegin(task) if is_layer(task) => self.current = Some(layer_bytes(task)),
            RpmOstreeEvent::TaskBegin(_) if progress.phase != PullPhase::Merge => {
                progress.phase = PullPhase::Merge;
                progress.layers_done = progress.layers;
                progress.bytes_done = progress.bytes;
            }
            // The text of an end is the same for each task.
            RpmOstreeEvent::TaskEnd(_) => {
                let bytes = self.current.take()?;
                progress.layers_done = (progress.layers_done + 1).min(progress.layers);
                progress.bytes_done = (progress.bytes_done + bytes).min(progress.bytes);
            }
            _ => return None,
        }
        self.current.is_none().then(|| self.progress.clone())
    }
}

/// `[2/6] Fetching ostree chunk b0467b7c5c744619f2c (12.6 kB)`.
fn is_layer(task: &str) -> bool {
    let numbered = task.strip_prefix('[').and_then(|task| task.split_once("] "));
    let task = numbered.map_or(task, |(_, task)| task);
    LAYER_TASKS.iter().any(|start| task.starts_with(start))
}

/// Size at the end of a layer's task; 0 where there is none.
fn layer_bytes(task: &str) -> u64 {
    let size = task.rsplit_once('(').and_then(|(_, size)| bytes(size.trim_end_matches(')')));
    size.unwrap_or(0)
}

/// `ostree chunk layers needed: 3 (14.2 MB)`.
fn needed(text: &str) -> Option<(usize, u64)> {
    let (_, rest) = text.split_once(NEEDED)?;
    let (number, size) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((number.parse().ok()?, bytes(size.trim_matches(['(', ')'])).unwrap_or(0)))
}

/// `14.2 MB` and `14.2\u{a0}MB`, as `GLib` formats sizes.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once([' ', '\u{a0}'])?;
    let factor: u64 = match unit {
        "bytes" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let tenths: u64 = tenths.get(..1)?.parse().ok()?;
    Some(whole.parse::<u64>().ok()?.saturating_mul(factor).saturating_add(tenths * factor / 10))
}

/// Logs each reason of a wait once.
#[derive(Debug, Default)]
pub(super) struct BusyNotice {
    logged: String,
}

impl BusyNotice {
    pub(super) fn log(&mut self, event: &RpmOstreeEvent) {
        if let RpmOstreeEvent::Busy(with) = event
            && self.logged != *with
        {
            log::warn!("waiting for rpm-ostreed, which is busy: {with}");
            self.logged.clone_from(with);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_of_a_pull_follows_its_messages() {
        let mut progress = TransactionProgress::nothing();
        let mut update = |event: RpmOstreeEvent| {
            progress.update(&event).map(|now| (now.phase, now.layers_done, now.layers, now.bytes_done))
        };
        assert_eq!(update(RpmOstreeEvent::Message("Pulling manifest: h/x".into())), None);
        let needed = RpmOstreeEvent::Message("ostree chunk layers needed: 2 (14.2\u{a0}MB)".into());
        assert_eq!(update(needed), Some((PullPhase::Layers, 0, 2, 0)));
        let done = || RpmOstreeEvent::TaskEnd("done".into());
        let task = "[1/2] Fetching ostree chunk 5b0d49a69d287e0d54e (7.0\u{a0}MB)";
        assert_eq!(update(RpmOstreeEvent::TaskBegin(task.into())), None);
        assert_eq!(update(done()), Some((PullPhase::Layers, 1, 2, 7_000_000)));
        let task = "[2/2] Fetching layer 5b0d49a69d287e0d54e (9.0\u{a0}MB)";
        assert_eq!(update(RpmOstreeEvent::TaskBegin(task.into())), None);
        assert_eq!(update(done()), Some((PullPhase::Layers, 2, 2, 14_200_000)), "rounded sizes");
        let staging = RpmOstreeEvent::TaskBegin("Staging deployment".into());
        assert_eq!(update(staging), Some((PullPhase::Merge, 2, 2, 14_200_000)));
        assert_eq!(update(done()), None);
    }

    #[test]
    fn sizes_with_units_are_parsed() {
        for (text, expected) in [
            ("0 bytes", Some(0)),
            ("999 bytes", Some(999)),
            ("1.5 kB", Some(1_500)),
            ("2.0 GB", Some(2_000_000_000)),
            ("much", None),
            ("1 XB", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
