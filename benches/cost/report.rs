//! Figures, what they should be, and how they are shown.

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use serde_json::json;

/// A run fails if a figure is so many times its target.
const FAILURE: f64 = 1.25;

/// What one repetition of a row found out.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    pub name: &'static str,
    pub value: f64,
    target: Option<Target>,
}

#[derive(Clone, Copy, Debug)]
struct Target {
    max: f64,
    /// What is hoped for beyond it.
    goal: f64,
    /// How far it is known to be missed, for a reason that docs/performance.md gives; the target where it is not.
    known: f64,
}

/// A figure over all repetitions.
#[derive(Clone, Debug)]
pub struct Summary {
    name: &'static str,
    median: f64,
    least: f64,
    most: f64,
    target: Option<Target>,
}

/// How a figure compares with its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is no target.
    Shown,
    Goal,
    Ok,
    /// Above the target, and not far enough to fail, or no further than is known.
    Missed,
    Failed,
}

/// The tables of a run.
#[derive(Default)]
pub struct Report {
    rows: Vec<serde_json::Value>,
}

// === impl Figure ===

impl Figure {
    /// Something that is only shown.
    pub fn shown(name: &'static str, value: f64) -> Self {
        Self {
            name,
            value,
            target: None,
        }
    }

    /// Something that should be at most so much.
    pub fn at_most(max: f64, name: &'static str, value: f64) -> Self {
        Self::with_goal(max, max, name, value)
    }

    /// Something that should be at most so much, and better still no more than the goal.
    pub fn with_goal(max: f64, goal: f64, name: &'static str, value: f64) -> Self {
        Self {
            name,
            value,
            target: Some(Target {
                max,
                goal,
                known: max,
            }),
        }
    }

    /// The target is missed, and it is known why: it fails only if it is missed by more than this.
    pub fn known_to_miss(mut self, by: f64) -> Self {
        if let Some(target) = &mut self.target {
            target.known = by;
        }
        self
    }
}

// === impl Summary ===

impl Summary {
    /// Puts the figures of several repetitions together.
    pub fn of(repetitions: &[Vec<Figure>]) -> Vec<Self> {
        let Some(first) = repetitions.first() else {
            return Vec::new();
        };
        (0..first.len())
            .map(|place| {
                let mut values: Vec<_> = repetitions.iter().map(|all| all[place].value).collect();
                values.sort_by(f64::total_cmp);
                Self {
                    name: first[place].name,
                    median: values[values.len() / 2],
                    least: values[0],
                    most: values[values.len() - 1],
                    target: first[place].target,
                }
            })
            .collect()
    }

    pub fn verdict(&self) -> Verdict {
        match self.target {
            None => Verdict::Shown,
            // What could not be measured is not fine.
            Some(_) if self.median.is_nan() => Verdict::Failed,
            Some(target) if self.median > target.known * FAILURE => Verdict::Failed,
            Some(target) if self.median > target.max => Verdict::Missed,
            Some(target) if target.goal < target.max && self.median <= target.goal => Verdict::Goal,
            Some(_) => Verdict::Ok,
        }
    }

    fn target_text(&self) -> String {
        match self.target {
            None => "-".to_owned(),
            Some(Target { max, known, .. }) if known > max => format!("{max} (known {known})"),
            Some(Target { max, goal, .. }) if goal < max => format!("{max} (goal {goal})"),
            Some(Target { max, .. }) => max.to_string(),
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = |value: f64| match value.abs() {
            0.0 => "0".to_owned(),
            ..0.1 => format!("{value:.4}"),
            ..10.0 => format!("{value:.2}"),
            ..1000.0 => format!("{value:.1}"),
            _ => format!("{value:.0}"),
        };
        let name = self.name;
        let values = [self.median, self.least, self.most].map(number).join("\t");
        write!(
            f,
            "{name}\t{values}\t{}\t{}",
            self.target_text(),
            self.verdict().text()
        )
    }
}

// === impl Verdict ===

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Shown => "-",
            Self::Goal => "goal",
            Self::Ok => "ok",
            Self::Missed => "MISSED",
            Self::Failed => "FAILED",
        }
    }
}

// === impl Report ===

impl Report {
    pub fn begin() -> Result<Self> {
        let mut out = std::io::stdout();
        for (what, text) in machine() {
            writeln!(out, "# {what}: {text}")?;
        }
        writeln!(out, "row\tfigure\tmedian\tleast\tmost\ttarget\tverdict")?;
        Ok(Self::default())
    }

    pub fn add(&mut self, row: &str, form: &str, summaries: &[Summary]) -> Result<()> {
        let mut out = std::io::stdout();
        for summary in summaries {
            writeln!(out, "{row}\t{summary}")?;
        }
        out.flush()?;
        let figures = summaries.iter().map(|summary| {
            json!({
                "name": summary.name,
                "median": summary.median,
                "least": summary.least,
                "most": summary.most,
                "target": summary.target.map(|target| target.max),
                "goal": summary.target.map(|target| target.goal),
                "verdict": summary.verdict().text(),
            })
        });
        let figures: Vec<_> = figures.collect();
        self.rows
            .push(json!({"row": row, "form": form, "figures": figures}));
        Ok(())
    }

    pub fn write_json(&self, file: &Path) -> Result<()> {
        let machine: serde_json::Map<_, _> = machine()
            .into_iter()
            .map(|(what, text)| (what.to_owned(), text.into()))
            .collect();
        let all = json!({"machine": machine, "rows": self.rows});
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        Ok(std::fs::write(file, format!("{all:#}\n"))?)
    }
}

/// What the figures were measured on.
fn machine() -> Vec<(&'static str, String)> {
    let first_line = |file: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = processors
        .lines()
        .filter(|line| line.starts_with("processor"));
    vec![
        ("processor", model.to_owned()),
        ("cores", cores.count().to_string()),
        ("kernel", first_line("/proc/sys/kernel/osrelease")),
        ("load", first_line("/proc/loadavg")),
    ]
}
