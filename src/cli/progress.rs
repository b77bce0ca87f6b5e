//! Progress on standard error: a bar with bytes and rate on a terminal, plain lines otherwise.

use std::io::IsTerminal;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use crate::os::Phase;
use crate::transaction::generation::Stage;

/// The shape of the bar while bytes arrive.
const BAR: &str = "{msg} {bar:24} {bytes}/{total_bytes} {bytes_per_sec}";

/// Shows the stages of one transaction.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    /// The last plain line, which is not repeated.
    said: String,
}

impl Progress {
    pub(super) fn start() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(BAR).expect("the template is constant");
            ProgressBar::new(0).with_style(style)
        });
        Self { bar, said: String::new() }
    }

    pub(super) fn show(&mut self, stage: &Stage) {
        let line = match stage {
            Stage::Importing(step) => match step.phase {
                Phase::Manifest => "asking what the image consists of".to_owned(),
                Phase::Layers => format!("fetching {} layers, {}", step.layers, HumanBytes(step.bytes)),
                Phase::Merge => "writing the image's commit".to_owned(),
            },
            Stage::Deploying => "making the deployment".to_owned(),
            Stage::Configuring => "writing the configuration into it".to_owned(),
            Stage::Finishing => "writing the boot entries".to_owned(),
        };
        match &self.bar {
            Some(bar) => {
                if let Stage::Importing(step) = stage {
                    bar.set_length(step.bytes);
                    bar.set_position(step.bytes_done);
                }
                bar.set_message(line);
            }
            None if line != self.said => {
                eprintln!("{line}");
                self.said = line;
            }
            None => {}
        }
    }

    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
