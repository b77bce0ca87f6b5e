//! Lines that a running program prints, awaited one after the other.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest wait for anything: a test that hangs fails.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Output of a program, read by a thread of its own: the program never waits for the test.
pub struct OutputLines {
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl OutputLines {
    /// Read the lines of `stream` until it ends.
    pub fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines, seen: Vec::new() }
    }

    /// Wait for the next line that is `expected`, and return it. `what` describes it in the message of a failure.
    pub fn wait_for(&mut self, what: &str, expected: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + LONGEST_WAIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line {what}; output:\n{}", self.seen.join("\n"));
            };
            self.seen.push(line.clone());
            if expected(&line) {
                return line;
            }
        }
    }

    /// Lines so far, as far as they were waited for.
    pub fn seen(&self) -> &[String] {
        &self.seen
    }
}
