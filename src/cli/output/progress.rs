//! Progress on standard error: a bar with bytes and rate on a terminal, plain lines otherwise.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use log::LevelFilter;

use crate::cli::output::terminal::say;
use crate::os::PullPhase;
use crate::transaction::plan::target::UpdateProgress;

/// Template for stages without a known size.
const WAITING: &str = "{spinner} {msg}";
/// Template while image layers are downloaded.
const COUNTING: &str = "{spinner} {msg} {bar:24} {bytes}/{total_bytes} {bytes_per_sec}";
/// Period of the spinner: a sign of life while libostree works for minutes without reporting progress.
const BEAT: Duration = Duration::from_millis(200);

/// Progress display of one transaction.
#[derive(Debug)]
pub(crate) struct ProgressDisplay {
    /// False where only results and errors are asked for.
    is_shown: bool,
    bar: Option<ProgressBar>,
    /// The last line that was shown: without a terminal, equal lines are printed once.
    last_line: String,
}

impl ProgressDisplay {
    pub(crate) fn start() -> Self {
        let is_shown = log::max_level() >= LevelFilter::Info;
        let bar = (is_shown && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::no_length().with_style(style(WAITING));
            bar.enable_steady_tick(BEAT);
            bar
        });
        Self { is_shown, bar, last_line: String::new() }
    }

    pub(crate) fn show(&mut self, stage: &UpdateProgress) {
        let line = in_words(stage);
        let is_new = line != self.last_line;
        match &self.bar {
            Some(bar) => {
                let counted = match stage {
                    UpdateProgress::Pulling(step) if step.phase == PullPhase::Layers => Some(step),
                    _ => None,
                };
                if is_new {
                    bar.set_style(style(if counted.is_some() { COUNTING } else { WAITING }));
                    bar.set_message(line.clone());
                }
                if let Some(step) = counted {
                    bar.set_length(step.bytes);
                    bar.set_position(step.bytes_done);
                }
            }
            None if is_new && self.is_shown => say(&line),
            None => {}
        }
        self.last_line = line;
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("constant progress template is valid")
}

fn in_words(stage: &UpdateProgress) -> String {
    match stage {
        UpdateProgress::Pulling(step) => match step.phase {
            PullPhase::Manifest => "reading the image's manifest".to_owned(),
            PullPhase::Layers => format!("fetching {} layers, {}", step.layers, HumanBytes(step.bytes)),
            PullPhase::Merge => "committing the image to the repository".to_owned(),
        },
        UpdateProgress::Unpacking => "unpacking the extensions image".to_owned(),
        UpdateProgress::Deploying => "checking out the deployment".to_owned(),
        UpdateProgress::Configuring => "writing the configuration into the deployment".to_owned(),
        UpdateProgress::WritingBootEntries => "writing the boot entries".to_owned(),
    }
}
