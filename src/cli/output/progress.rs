//! Progress on standard error: a numbered line per step with its time. On a terminal, the running step has a live line with
//! bytes, rate and rest; elsewhere each line begins with the time of day, and a fetch tells its percentage now and then.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use jiff::Timestamp;
use log::LevelFilter;

use crate::cli::output::terminal::say;
use crate::cli::output::words::lasting;
use crate::os::{PullPhase, PullProgress};
use crate::transaction::plan::target::UpdateProgress;

/// Template of the live line of a step without a known size.
const WAITING: &str = "{spinner} {msg}";
/// Template of the live line before the first bytes of an image, from which a rate can be told.
const BEGINNING: &str = "{spinner} {msg} [{wide_bar}] {percent}% of {total_bytes}";
/// Template of the live line while image layers are downloaded. A bar that takes the rest of the line keeps it to one.
const COUNTING: &str =
    "{spinner} {msg} [{wide_bar}] {percent}% of {total_bytes}, {bytes_per_sec}, {eta} left";
/// Period of the spinner: a sign of life while libostree works for minutes without reporting progress.
const BEAT: Duration = Duration::from_millis(200);
/// Period of the lines about a fetch where there is no terminal.
const REPEAT: Duration = Duration::from_secs(10);
/// Column of a step's details, behind its number.
const DETAILS: usize = 24;

/// Progress display of one command.
#[derive(Debug)]
pub(crate) struct ProgressDisplay {
    /// False where only results and errors are asked for.
    is_shown: bool,
    bar: Option<ProgressBar>,
    /// Number of the running step.
    number: usize,
    step: Option<RunningStep>,
}

#[derive(Debug)]
struct RunningStep {
    name: &'static str,
    detail: String,
    began: Instant,
    /// Time of the last line about it.
    told: Instant,
}

impl ProgressDisplay {
    /// Begin with the step of this name.
    pub(crate) fn start(first: &'static str) -> Self {
        let is_shown = log::max_level() >= LevelFilter::Info;
        let mut display = Self { is_shown, bar: None, number: 0, step: None };
        display.begin(first);
        display
    }

    /// End the running step, and begin the next one.
    pub(crate) fn begin(&mut self, name: &'static str) {
        self.end(true);
        self.number += 1;
        let now = Instant::now();
        self.step = Some(RunningStep { name, detail: String::new(), began: now, told: now });
        if self.is_shown && std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| {
                let bar = ProgressBar::no_length();
                bar.enable_steady_tick(BEAT);
                bar
            });
            bar.set_style(style(WAITING));
            bar.set_message(format!("[{}] {name}", self.number));
        }
    }

    /// Show the progress of an update.
    pub(crate) fn show(&mut self, stage: &UpdateProgress) {
        let name = step_of(stage);
        if self.step.as_ref().is_none_or(|step| step.name != name) {
            self.begin(name);
        }
        if let UpdateProgress::Pulling(step) = stage
            && step.phase == PullPhase::Layers
        {
            self.count(step);
        }
    }

    /// Show how much of an image is fetched.
    fn count(&mut self, fetched: &PullProgress) {
        let Some(step) = &mut self.step else { return };
        step.detail = format!("{} layers, {}", fetched.layers, HumanBytes(fetched.bytes));
        if let Some(bar) = &self.bar {
            bar.set_style(style(if fetched.bytes_done > 0 { COUNTING } else { BEGINNING }));
            bar.set_length(fetched.bytes);
            bar.set_position(fetched.bytes_done);
        } else if self.is_shown && step.told.elapsed() >= REPEAT {
            step.told = Instant::now();
            let percent = fetched.bytes_done.saturating_mul(100).checked_div(fetched.bytes).unwrap_or(100);
            let done = HumanBytes(fetched.bytes_done);
            let line = format!("{percent}%, {done} of {}", HumanBytes(fetched.bytes));
            self.say_about(&line);
        }
    }

    /// End the running step, and the live line. A step that failed says so: the error follows.
    pub(crate) fn finish(&mut self, is_ok: bool) {
        self.end(is_ok);
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn end(&mut self, is_ok: bool) {
        let Some(RunningStep { detail, began, .. }) = &self.step else { return };
        let time = lasting(began.elapsed());
        let line = if is_ok { format!("{detail:<32} {time}") } else { format!("failed after {time}") };
        self.say_about(&line);
        self.step = None;
    }

    /// Write a line about the running step.
    fn say_about(&self, text: &str) {
        let Some(step) = self.step.as_ref().filter(|_| self.is_shown) else { return };
        let line = format!("[{}] {:<DETAILS$} {text}", self.number, step.name);
        match &self.bar {
            Some(bar) => bar.suspend(|| say(&line)),
            None => say(&format!("{} {line}", Timestamp::now().strftime("%H:%M:%SZ"))),
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("constant progress template is valid");
    // Every locale has these.
    style.tick_chars(r"-\|/ ").progress_chars("=> ")
}

fn step_of(stage: &UpdateProgress) -> &'static str {
    match stage {
        UpdateProgress::Pulling(step) => match step.phase {
            PullPhase::Manifest => "ask the registry",
            PullPhase::Layers => "fetch the image",
            PullPhase::Merge => "commit the image",
        },
        UpdateProgress::Unpacking => "unpack the extensions",
        UpdateProgress::Deploying => "check out the deployment",
        UpdateProgress::Configuring => "write the configuration",
        UpdateProgress::WritingBootEntries => "write the boot entries",
    }
}
