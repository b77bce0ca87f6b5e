//! Alternating measurements of two sides, so that other load on the machine affects both.

use anyhow::Result;

/// One of the two measured programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairSide {
    Ours,
    Baseline,
}

/// The measurements of each side.
#[derive(Debug)]
pub struct PairSamples<T> {
    pub ours: Vec<T>,
    pub baseline: Vec<T>,
}

/// Measure both sides in each round; rounds are counted from 1, and the order alternates.
///
/// # Errors
/// `turn` fails.
pub fn in_turn<T>(rounds: u32, mut turn: impl FnMut(u32, PairSide) -> Result<T>) -> Result<PairSamples<T>> {
    let mut samples = PairSamples { ours: Vec::new(), baseline: Vec::new() };
    for round in 1..=rounds {
        let order = if round % 2 == 0 {
            [PairSide::Baseline, PairSide::Ours]
        } else {
            [PairSide::Ours, PairSide::Baseline]
        };
        for side in order {
            let sample = turn(round, side)?;
            match side {
                PairSide::Ours => samples.ours.push(sample),
                PairSide::Baseline => samples.baseline.push(sample),
            }
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_alternates_between_rounds() {
        let mut order = Vec::new();
        let samples = in_turn(3, |round, side| {
            order.push((round, side));
            Ok(round)
        });
        let samples = samples.unwrap();
        let (o, b) = (PairSide::Ours, PairSide::Baseline);
        assert_eq!(order, [(1, o), (1, b), (2, b), (2, o), (3, o), (3, b)]);
        assert_eq!([samples.ours, samples.baseline], [[1, 2, 3], [1, 2, 3]]);
    }
}
