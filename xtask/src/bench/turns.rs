//! Measuring two sides in turn, so that what else the machine does meets both.

use anyhow::Result;

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Ours,
    Baseline,
}

/// What each side's turns gave.
#[derive(Debug)]
pub struct Samples<T> {
    pub ours: Vec<T>,
    pub baseline: Vec<T>,
}

/// Lets both sides have their turn in each round, which are counted from 1. Who begins changes each time.
///
/// # Errors
/// As `turn`.
pub fn in_turn<T>(rounds: u32, mut turn: impl FnMut(u32, Side) -> Result<T>) -> Result<Samples<T>> {
    let mut samples = Samples { ours: Vec::new(), baseline: Vec::new() };
    for round in 1..=rounds {
        let order = if round % 2 == 0 { [Side::Baseline, Side::Ours] } else { [Side::Ours, Side::Baseline] };
        for side in order {
            let sample = turn(round, side)?;
            match side {
                Side::Ours => samples.ours.push(sample),
                Side::Baseline => samples.baseline.push(sample),
            }
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_begins_changes_each_time() {
        let mut order = Vec::new();
        let samples = in_turn(3, |round, side| {
            order.push((round, side));
            Ok(round)
        });
        let samples = samples.unwrap();
        let (o, b) = (Side::Ours, Side::Baseline);
        assert_eq!(order, [(1, o), (1, b), (2, b), (2, o), (3, o), (3, b)]);
        assert_eq!([samples.ours, samples.baseline], [[1, 2, 3], [1, 2, 3]]);
    }
}
