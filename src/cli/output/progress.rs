//! Progress on standard error: a bar with bytes and rate on a terminal, plain lines otherwise.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use crate::cli::output::terminal::say;
use crate::os::Phase;
use crate::transaction::plan::target::Stage;

/// What a terminal shows while nothing can be counted.
const WAITING: &str = "{spinner} {msg}";
/// What it shows while bytes arrive.
const COUNTING: &str = "{spinner} {msg} {bar:24} {bytes}/{total_bytes} {bytes_per_sec}";
/// How often the spinner moves: a sign of life, while libostree works without saying anything.
const BEAT: Duration = Duration::from_millis(200);

/// Shows the stages of one transaction.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// What was said last; a plain line is not repeated.
    said: String,
}

impl Progress {
    pub(crate) fn start() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::no_length().with_style(style(WAITING));
            bar.enable_steady_tick(BEAT);
            bar
        });
        Self { bar, said: String::new() }
    }

    pub(crate) fn show(&mut self, stage: &Stage) {
        let line = in_words(stage);
        let is_new = line != self.said;
        match &self.bar {
            Some(bar) => {
                let counted = match stage {
                    Stage::Importing(step) if step.phase == Phase::Layers => Some(step),
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
            None if is_new => say(&line),
            None => {}
        }
        self.said = line;
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are constant")
}

fn in_words(stage: &Stage) -> String {
    match stage {
        Stage::Importing(step) => match step.phase {
            Phase::Manifest => "asking what the image consists of".to_owned(),
            Phase::Layers => format!("fetching {} layers, {}", step.layers, HumanBytes(step.bytes)),
            Phase::Merge => "writing the image's commit".to_owned(),
        },
        Stage::Unpacking => "unpacking the packages of extensions".to_owned(),
        Stage::Deploying => "making the deployment".to_owned(),
        Stage::Configuring => "writing the configuration into it".to_owned(),
        Stage::Finishing => "writing the boot entries".to_owned(),
    }
}
