//! Axes with round numbers.

/// A mapping of values to an axis.
pub struct Scale {
    step: f64,
    steps: u32,
}

impl Scale {
    /// Creates a scale with a few round marks, the last one above `greatest`.
    pub fn up_to(greatest: f64) -> Scale {
        let rough = greatest / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0].into_iter().map(|s| s * power).find(|s| *s >= rough).unwrap_or(10.0 * power);
        Scale { step, steps: (greatest / step).floor() as u32 + 1 }
    }

    /// Returns all marks.
    pub fn marks(&self) -> impl Iterator<Item = f64> {
        (0..=self.steps).map(|n| f64::from(n) * self.step)
    }

    /// Returns the last mark.
    pub fn top(&self) -> f64 {
        self.step * f64::from(self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round() {
        let marks = |greatest| Scale::up_to(greatest).marks().last().unwrap();
        assert_eq!([marks(33.0), marks(10.0), marks(0.9)], [40.0, 12.0, 1.0]);
    }
}
