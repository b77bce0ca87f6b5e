//! Plot of the trials: the progress of an update, and of the return after an outage.

use std::fmt::Write as _;

use crate::page::title;
use crate::trial::{ProgressCurve, TrialFigures};

/// Size of a panel, and the place of its axes, in pixels.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 50.0;
const TOP: f64 = 40.0;
/// Colours of the curves, told apart without colour vision too.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// Panel: its heading, and the curve of a trial.
type PlotPanel = (&'static str, fn(&TrialFigures) -> &ProgressCurve);

/// Draw the plot as SVG.
pub(crate) fn draw(trials: &[TrialFigures]) -> String {
    let mut svg = String::new();
    let (width, height) = (2.0 * (LEFT + WIDTH) + 60.0, TOP + HEIGHT + 50.0 + 20.0 * count(trials.len()));
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    );
    let panels: [PlotPanel; 2] = [
        ("Agents that are done with the new config", |trial| &trial.updated),
        ("Watches open again, after the API server was away", |trial| &trial.watching),
    ];
    for (number, (heading, curve)) in panels.into_iter().enumerate() {
        panel(&mut svg, LEFT + count(number) * (LEFT + WIDTH + 20.0), heading, trials, curve);
    }
    for (number, trial) in trials.iter().enumerate() {
        let y = TOP + HEIGHT + 55.0 + 20.0 * count(number);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{:.0}\" x2=\"{:.0}\" y2=\"{:.0}\" stroke=\"{}\" stroke-width=\"2\"/>\n\
             <text x=\"{:.0}\" y=\"{y:.0}\">{}</text>",
            y - 4.0,
            LEFT + 30.0,
            y - 4.0,
            colour(number),
            LEFT + 38.0,
            title(trial)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(
    svg: &mut String,
    left: f64,
    heading: &str,
    trials: &[TrialFigures],
    curve: impl Fn(&TrialFigures) -> &ProgressCurve,
) {
    let longest = trials.iter().filter_map(|trial| Some(curve(trial).last()?.0)).fold(1.0, f64::max);
    let x = |seconds: f64| left + WIDTH * seconds / longest;
    let y = |share: f64| TOP + HEIGHT * (1.0 - share);
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"{:.0}\" font-weight=\"bold\">{heading}</text>", TOP - 16.0);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{0:.1}\" x2=\"{1:.1}\" y2=\"{0:.1}\" stroke=\"#ccc\"/>\n\
             <text x=\"{2:.1}\" y=\"{3:.1}\" text-anchor=\"end\">{4:.0} %</text>",
            y(share),
            left + WIDTH,
            left - 6.0,
            y(share) + 4.0,
            share * 100.0
        );
    }
    for part in 0..=4 {
        let seconds = longest * f64::from(part) / 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{seconds:.0} s</text>",
            x(seconds),
            TOP + HEIGHT + 18.0
        );
    }
    for (number, trial) in trials.iter().enumerate() {
        let points =
            curve(trial).iter().map(|(seconds, share)| format!("{:.1},{:.1}", x(*seconds), y(*share)));
        let points = points.collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>",
            colour(number)
        );
    }
}

fn colour(number: usize) -> &'static str {
    COLOURS.iter().copied().cycle().nth(number).unwrap_or("black")
}

#[expect(clippy::cast_precision_loss, reason = "a page has few panels and trials")]
fn count(number: usize) -> f64 {
    number as f64
}
