//! The process itself, as every scraper expects to be told of it: read from `/proc` at each scrape.
//!
//! Where there is no `/proc`, or it says something unexpected, a figure is left out rather than made up.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Ticks of the clock that `/proc` counts in: the kernel shows this number of them on every machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// Describes this process at each scrape.
#[derive(Clone, Copy, Debug)]
pub struct ProcessCollector;

/// What is known of the process; what is not is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Process {
    cpu_seconds: Option<f64>,
    start_seconds: Option<f64>,
    resident_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    open_files: Option<u64>,
    open_files_max: Option<u64>,
}

// === impl ProcessCollector ===

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let process = Process::of_this();
        if let Some(seconds) = process.cpu_seconds {
            encoder
                .encode_descriptor(
                    "process_cpu",
                    "Time that the process has kept CPUs busy, in user and kernel mode",
                    Some(&Unit::Seconds),
                    MetricType::Counter,
                )?
                .encode_counter::<NoLabelSet, f64, u64>(&seconds, None)?;
        }
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        let gauges = [
            (
                "process_start_time",
                "When the process started, since the beginning of 1970",
                Some(Unit::Seconds),
                process.start_seconds,
            ),
            (
                "process_resident_memory",
                "Memory of the process that is in RAM",
                Some(Unit::Bytes),
                process.resident_bytes.map(|bytes| bytes as f64),
            ),
            (
                "process_virtual_memory",
                "Memory of the process, be it in RAM or not",
                Some(Unit::Bytes),
                process.virtual_bytes.map(|bytes| bytes as f64),
            ),
            (
                "process_open_fds",
                "Files and sockets that the process has open",
                None,
                process.open_files.map(|files| files as f64),
            ),
            (
                "process_max_fds",
                "Files and sockets that the process may have open",
                None,
                process.open_files_max.map(|files| files as f64),
            ),
        ];
        for (name, help, unit, value) in &gauges {
            if let Some(value) = value {
                encoder
                    .encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?
                    .encode_gauge(value)?;
            }
        }
        Ok(())
    }
}

// === impl Process ===

impl Process {
    fn of_this() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let known = Self::read(
            &text("/proc/self/stat"),
            &text("/proc/self/status"),
            &text("/proc/stat"),
        );
        Self {
            // Reading the folder takes a descriptor, which is not one of the process at other times.
            open_files: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|files| (files.count() as u64).saturating_sub(1)),
            open_files_max: rlimit::Resource::NOFILE.get_soft().ok(),
            ..known
        }
    }

    /// What `/proc/PID/stat`, `/proc/PID/status` and `/proc/stat` say; see `proc(5)`.
    fn read(stat: &str, status: &str, system: &str) -> Self {
        // The name of the program may have any character in it, and ends at the last parenthesis.
        let fields: Vec<&str> = stat.rsplit_once(')').map_or(Vec::new(), |(_, fields)| {
            fields.split_whitespace().collect()
        });
        // The first of them is field 3 of the manual.
        let seconds = |number: usize| -> Option<f64> {
            let ticks: f64 = fields.get(number - 3)?.parse().ok()?;
            Some(ticks / TICKS_PER_SECOND)
        };
        let kib = |key: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            let kib: u64 = line.strip_suffix(" kB")?.trim().parse().ok()?;
            kib.checked_mul(1024)
        };
        let boot: Option<f64> = system
            .lines()
            .find_map(|line| line.strip_prefix("btime "))
            .and_then(|seconds| seconds.trim().parse().ok());
        Self {
            cpu_seconds: seconds(14)
                .zip(seconds(15))
                .map(|(user, kernel)| user + kernel),
            start_seconds: boot.zip(seconds(22)).map(|(boot, after)| boot + after),
            resident_bytes: kib("VmRSS:"),
            virtual_bytes: kib("VmSize:"),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 (a) b (c)) S 1 7 7 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 4 0 1234 1000 20 18446744073709551615";
    const STATUS: &str = "Name:\ta\nVmPeak:\t  9000 kB\nVmSize:\t    8192 kB\nVmRSS:\t    4 kB\n";

    #[test]
    fn figures_are_read_in_base_units() {
        let process = Process::read(STAT, STATUS, "cpu 1 2 3\nbtime 1700000000\n");
        let expected = Process {
            cpu_seconds: Some(3.0),
            start_seconds: Some(1_700_000_012.34),
            resident_bytes: Some(4096),
            virtual_bytes: Some(8 << 20),
            ..Process::default()
        };
        assert_eq!(process, expected);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        assert_eq!(Process::read("", "", ""), Process::default());
        let odd = Process::read("7 (a) S 1", "VmRSS: much\n", "btime soon\n");
        assert_eq!(odd, Process::default());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_known() {
        let process = Process::of_this();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 1 << 16));
        assert!(process.open_files.is_some_and(|files| files > 0));
        assert!(process.start_seconds.is_some() && process.cpu_seconds.is_some());
    }
}
