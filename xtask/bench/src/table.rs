//! The table of figures, as aligned Markdown for a terminal and for a page.

use std::fmt;
use std::time::Duration;

use anyhow::Result;

use super::stopwatch::median;
use super::turns::PairSamples;

/// A measured value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FigureValue {
    Time(Duration),
    Count(u32),
    Kibibytes(u32),
}

impl FigureValue {
    /// The number in the base unit of its kind.
    fn magnitude(self) -> f64 {
        match self {
            Self::Time(time) => time.as_secs_f64(),
            Self::Count(number) | Self::Kibibytes(number) => f64::from(number),
        }
    }
}

impl fmt::Display for FigureValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Time(time) if time < Duration::from_secs(1) => {
                write!(f, "{:.1} ms", time.as_secs_f64() * 1000.0)
            }
            Self::Time(time) => write!(f, "{:.2} s", time.as_secs_f64()),
            Self::Count(number) => write!(f, "{number}"),
            Self::Kibibytes(number) => write!(f, "{:.1} MiB", f64::from(number) / 1024.0),
        }
    }
}

/// The budget of a figure in the design.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FigureBudget {
    /// The baseline takes at least this multiple of our time.
    TimesFaster(f64),
    AtMost(FigureValue),
}

impl fmt::Display for FigureBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimesFaster(factor) => write!(f, "≥ {factor}×"),
            Self::AtMost(quantity) => write!(f, "≤ {quantity}"),
        }
    }
}

/// A row of the table. The baseline is a value and the program that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureRow {
    name: String,
    ours: FigureValue,
    baseline: Option<(FigureValue, &'static str)>,
    /// The lowest and the highest ratio of the rounds.
    range: Option<(f64, f64)>,
    budget: Option<FigureBudget>,
}

impl FigureRow {
    pub fn new(name: impl Into<String>, ours: FigureValue) -> Self {
        Self { name: name.into(), ours, baseline: None, range: None, budget: None }
    }

    #[must_use]
    pub fn against(self, baseline: FigureValue, program: &'static str) -> Self {
        Self { baseline: Some((baseline, program)), ..self }
    }

    /// Compare both sides' medians and add the range of the ratio over the rounds.
    ///
    /// # Errors
    /// `samples` is empty.
    pub fn of(
        name: impl Into<String>,
        samples: &PairSamples<Duration>,
        program: &'static str,
    ) -> Result<Self> {
        let [ours, baseline] = [median(&samples.ours)?, median(&samples.baseline)?].map(FigureValue::Time);
        Ok(Self { range: range(samples), ..Self::new(name, ours).against(baseline, program) })
    }

    #[must_use]
    pub fn within(self, budget: Option<FigureBudget>) -> Self {
        Self { budget, ..self }
    }

    /// The baseline divided by ours: above 1, ours is better.
    fn ratio(&self) -> Option<f64> {
        let (baseline, _) = self.baseline?;
        let ours = self.ours.magnitude();
        (ours > 0.0).then(|| baseline.magnitude() / ours)
    }

    fn is_met(&self) -> Option<bool> {
        match self.budget? {
            FigureBudget::TimesFaster(factor) => self.ratio().map(|ratio| ratio >= factor),
            FigureBudget::AtMost(most) => Some(self.ours.magnitude() <= most.magnitude()),
        }
    }

    fn cells(&self) -> [String; 7] {
        let nothing = || "–".to_owned();
        let (baseline, program) = self.baseline.map_or_else(
            || (nothing(), nothing()),
            |(value, program)| (value.to_string(), program.to_owned()),
        );
        let range = self.range.map(|(low, high)| format!(" ({low:.2}–{high:.2})")).unwrap_or_default();
        let verdict = match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "–",
        };
        [
            self.name.clone(),
            self.ours.to_string(),
            baseline,
            program,
            self.ratio().map_or_else(nothing, |ratio| format!("{ratio:.2}{range}")),
            self.budget.map_or_else(nothing, |budget| budget.to_string()),
            verdict.to_owned(),
        ]
    }
}

fn range(samples: &PairSamples<Duration>) -> Option<(f64, f64)> {
    let rounds = samples.ours.iter().zip(&samples.baseline);
    let ratios: Vec<_> = rounds.map(|(ours, baseline)| baseline.as_secs_f64() / ours.as_secs_f64()).collect();
    Some((ratios.iter().copied().reduce(f64::min)?, ratios.iter().copied().reduce(f64::max)?))
}

const HEADINGS: [&str; 7] =
    ["figure", "flameholder", "baseline", "baseline's program", "baseline ÷ ours", "budget", "verdict"];
/// Columns that are aligned as numbers.
const NUMBERS: [bool; 7] = [false, true, true, false, true, true, false];

/// Render the table as Markdown.
pub fn render(rows: &[FigureRow]) -> String {
    let lines: Vec<_> =
        std::iter::once(HEADINGS.map(str::to_owned)).chain(rows.iter().map(FigureRow::cells)).collect();
    let mut widths = [0; 7];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(widths).zip(NUMBERS);
        text.push_str(&joined(cells.map(|((cell, width), number)| {
            if number { format!(" {cell:>width$} ") } else { format!(" {cell:<width$} ") }
        })));
        if number == 0 {
            text.push_str(&joined(widths.into_iter().zip(NUMBERS).map(|(width, number)| {
                let rule = "-".repeat(width + 1);
                if number { format!("{rule}:") } else { format!(":{rule}") }
            })));
        }
    }
    text
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    format!("|{}|\n", cells.collect::<Vec<_>>().join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(number: u64) -> FigureValue {
        FigureValue::Time(Duration::from_millis(number))
    }

    #[test]
    fn values_have_units() {
        let shown =
            [milliseconds(12), milliseconds(2_340), FigureValue::Count(7), FigureValue::Kibibytes(1536)];
        assert_eq!(shown.map(|quantity| quantity.to_string()), ["12.0 ms", "2.34 s", "7", "1.5 MiB"]);
    }

    #[test]
    fn budget_is_met_at_its_bound() {
        let row =
            |ours, baseline| FigureRow::new("apply", milliseconds(ours)).against(milliseconds(baseline), "x");
        let faster = Some(FigureBudget::TimesFaster(3.0));
        assert_eq!(row(125, 375).within(faster).is_met(), Some(true));
        assert_eq!(row(125, 374).within(faster).is_met(), Some(false));
        assert_eq!(FigureRow::new("apply", milliseconds(1)).within(faster).is_met(), None);
        let below = Some(FigureBudget::AtMost(milliseconds(60)));
        assert_eq!(row(60, 1).within(below).is_met(), Some(true));
        assert_eq!(row(61, 1).within(below).is_met(), Some(false));
        assert_eq!(row(61, 1).is_met(), None);
    }

    #[test]
    fn ratio_of_medians_has_its_range() {
        let times = |numbers: [u64; 3]| numbers.map(Duration::from_millis).to_vec();
        let samples = PairSamples { ours: times([100, 200, 400]), baseline: times([400, 300, 200]) };
        let cells = FigureRow::of("apply", &samples, "x").unwrap().cells();
        assert_eq!(cells[1..5], ["200.0 ms", "300.0 ms", "x", "1.50 (0.50–4.00)"]);
    }

    #[test]
    fn ratio_to_zero_is_left_out() {
        let row = FigureRow::new("flushes", FigureValue::Count(0)).against(FigureValue::Count(1), "x");
        assert_eq!(row.ratio(), None);
    }

    #[test]
    fn table_columns_are_aligned() {
        let rows = [
            FigureRow::new("apply", milliseconds(100))
                .against(milliseconds(50), "one by one")
                .within(Some(FigureBudget::TimesFaster(3.0))),
            FigureRow::new("size", FigureValue::Kibibytes(2048)),
        ];
        let expected = "\
| figure | flameholder | baseline | baseline's program | baseline ÷ ours | budget | verdict |
|:-------|------------:|---------:|:-------------------|----------------:|-------:|:--------|
| apply  |    100.0 ms |  50.0 ms | one by one         |            0.50 |   ≥ 3× | MISSED  |
| size   |     2.0 MiB |        – | –                  |               – |      – | –       |
";
        assert_eq!(render(&rows), expected);
    }
}
