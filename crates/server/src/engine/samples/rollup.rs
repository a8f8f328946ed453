//! What samples add up to, step by step: minutes for a day, ten minutes for a month.
//!
//! A minute is stored when it is over. The ten minutes that it is in are stored with it, as far as they have
//! come, so that a restart loses no more than a minute.

use multicluster_store::{Reader, Sample, SampleStep, StoreError};
use multicluster_types::{Span, Timestamp};

/// The steps that are not over.
#[derive(Debug, Default)]
pub(super) struct Rollup {
    minute: Option<Sample>,
    coarse: Option<Sample>,
}

/// The minutes of the last hour, and the ten minutes that are not over.
pub(super) fn stored(
    reader: &dyn Reader,
    now: Timestamp,
) -> Result<(Vec<Sample>, Option<Sample>), StoreError> {
    let hour = Timestamp(now.0.saturating_sub(Span::seconds(3600).0));
    let minutes = reader.samples(SampleStep::Minute, hour, now)?;
    let coarse = reader.samples(SampleStep::TenMinutes, SampleStep::TenMinutes.begin(now), now)?;
    Ok((minutes, coarse.into_iter().next_back()))
}

impl Rollup {
    /// These ten minutes were begun before.
    pub(super) fn go_on(&mut self, coarse: Option<Sample>) {
        self.coarse = coarse;
    }

    /// Adds one sample. What is to be stored now, if a minute is over.
    pub(super) fn add(&mut self, sample: Sample) -> Vec<(SampleStep, Box<Sample>)> {
        let begun = SampleStep::Minute.begin(sample.begun);
        if let Some(minute) = self.minute.as_mut().filter(|minute| minute.begun == begun) {
            minute.add(&sample);
            return Vec::new();
        }
        let Some(over) = self.minute.replace(Sample { begun, ..sample }) else { return Vec::new() };
        let begun = SampleStep::TenMinutes.begin(over.begun);
        let coarse = match self.coarse.take().filter(|coarse| coarse.begun == begun) {
            Some(mut coarse) => {
                coarse.add(&over);
                coarse
            }
            None => Sample { begun, ..over.clone() },
        };
        self.coarse = Some(coarse.clone());
        vec![(SampleStep::Minute, Box::new(over)), (SampleStep::TenMinutes, Box::new(coarse))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: u64 = 1_700_000_400_000;

    fn sample(second: u64, live: u64) -> Sample {
        Sample { begun: Timestamp(BEGIN + second * 1000), live, submitted: 1, ..Sample::default() }
    }

    #[test]
    fn a_minute_is_stored_when_it_is_over_and_the_ten_minutes_as_far_as_they_have_come() {
        let mut rollup = Rollup::default();
        let mut stored = Vec::new();
        for second in (0..=1260).step_by(15) {
            stored.extend(rollup.add(sample(second, second)));
        }
        let of = |step: SampleStep| {
            let samples = stored.iter().filter(|(found, _)| *found == step).map(|(_, sample)| &**sample);
            samples.map(|s| ((s.begun.0 - BEGIN) / 1000, s.live, s.submitted)).collect::<Vec<_>>()
        };
        assert_eq!(of(SampleStep::Minute)[..2], [(0, 45, 4), (60, 105, 4)]);
        assert_eq!(of(SampleStep::Minute).len(), 21);
        let coarse = of(SampleStep::TenMinutes);
        assert_eq!((coarse[0], coarse[9], coarse[10]), ((0, 45, 4), (0, 585, 40), (600, 645, 4)));
    }

    #[test]
    fn ten_minutes_go_on_where_the_process_before_left_them() {
        let before = Sample { submitted: 12, live: 99, ..sample(0, 0) };
        let mut rollup = Rollup::default();
        rollup.go_on(Some(before));
        assert!(rollup.add(sample(180, 1)).is_empty());
        let stored = rollup.add(sample(240, 1));
        assert_eq!((stored[0].1.submitted, stored[0].1.live), (1, 1));
        assert_eq!((stored[1].1.submitted, stored[1].1.live), (13, 99));
        // Those of another time do not.
        rollup.go_on(Some(sample(0, 0)));
        rollup.add(sample(900, 1));
        assert_eq!(rollup.add(sample(960, 1))[1].1.submitted, 1);
    }
}
