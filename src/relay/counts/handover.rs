//! The hand-over of the counters. Another version may have more of them, or fewer.

use super::Counts;

/// Counters by their index. Missing ones are zero.
pub mod numbers {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes them, for `serde(with)`.
    pub fn serialize<S: Serializer, const N: usize>(
        numbers: &[u64; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(numbers)
    }

    /// Reads them, for `serde(with)`.
    pub fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<[u64; N], D::Error> {
        let received = Vec::<u64>::deserialize(deserializer)?;
        let mut numbers = [0; N];
        numbers
            .iter_mut()
            .zip(received)
            .for_each(|(number, received)| *number = received);
        Ok(numbers)
    }
}

impl Counts {
    /// Continues the predecessor's counters.
    pub fn go_on_from(&mut self, received: Counts) {
        *self = received;
        self.cpu_before = self.cpu;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::relay::Process;

    /// It is a counter: a rate over it must not show a process that began anew.
    #[test]
    fn processor_time_never_goes_back() {
        let mut counts = Counts::default();
        let mut shown = Duration::ZERO;
        for process in 1..4 {
            for seconds in [1, 5] {
                let cpu = Duration::from_secs(seconds);
                counts.set_process(Process {
                    cpu,
                    ..Process::default()
                });
                assert!(counts.cpu > shown, "{process}");
                shown = counts.cpu;
            }
            let told = serde_json::to_string(&counts).expect("it is told");
            counts = Counts::default();
            counts.go_on_from(serde_json::from_str(&told).expect("it is read"));
            assert_eq!(counts.cpu, shown);
        }
        assert_eq!(shown, Duration::from_secs(15));
    }
}
