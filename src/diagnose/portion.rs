// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of the time, with intervals, and with bounds where stages were not observed apart.

use super::stages::Stages;

/// A part above this is most of the time.
const MOST: f64 = 0.5;
/// And the lower end of its interval is above this.
const SURELY: f64 = 1.0 / 3.0;
/// Bounds this close are one number.
const SAME: f64 = 0.005;

/// A part of a whole, with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// The part: 0 to 1.
    pub part: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Share {
    /// More than half, surely more than a third.
    pub fn is_most(&self) -> bool {
        self.part > MOST && self.low > SURELY
    }

    /// At least this part, and surely half of it.
    pub fn is_at_least(&self, part: f64) -> bool {
        self.part >= part && self.low >= part / 2.0
    }

    /// `71 % [65, 77]`
    pub fn text(&self) -> String {
        let percent = |x: f64| format!("{:.0}", x * 100.0);
        format!("{} % [{}, {}]", percent(self.part), percent(self.low), percent(self.high))
    }
}

/// The part of the time that some stages have. Where one of them was observed only together with
/// others, there are two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Portion {
    /// The stages.
    pub stages: Stages,
    /// What is surely theirs.
    pub least: Share,
    /// That, and all that may be theirs.
    pub most: Share,
}

/// How a portion compares with a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaches {
    /// It reaches the threshold.
    Yes,
    /// It does not.
    No,
    /// The bounds do not decide.
    Open,
}

impl Portion {
    /// Whether the stages were observed apart from others.
    pub fn is_exact(&self) -> bool {
        self.most.part - self.least.part < SAME
    }

    /// Whether a condition holds, by both bounds. A part that reaches the threshold with an interval that
    /// is too wide is open.
    fn decide(&self, threshold: f64, holds: impl Fn(&Share) -> bool) -> Reaches {
        match (holds(&self.least), self.most.part > threshold) {
            (true, _) => Reaches::Yes,
            (false, true) => Reaches::Open,
            (false, false) => Reaches::No,
        }
    }

    /// Whether it is most of the time.
    pub fn is_most(&self) -> Reaches {
        self.decide(MOST, Share::is_most)
    }

    /// Whether it is at least this part.
    pub fn is_at_least(&self, part: f64) -> Reaches {
        self.decide(part, |share| share.is_at_least(part))
    }

    /// `71 % [65, 77] of the time`, or `0 to 99 % of the time`
    pub fn text(&self) -> String {
        if self.is_exact() {
            return format!("{} of the time", self.least.text());
        }
        format!("{} of the time", self.range())
    }

    /// `71 %`, or `0 to 99 %`
    pub fn range(&self) -> String {
        let percent = |share: &Share| (share.part * 100.0).round();
        let (least, most) = (percent(&self.least), percent(&self.most));
        match self.is_exact() || least >= most {
            true => format!("{least} %"),
            false => format!("{least} to {most} %"),
        }
    }

    /// `device has 0 to 99 % of the time: it was not observed apart`
    pub fn undecided(&self) -> String {
        let why = match self.is_exact() {
            true => "too uncertain",
            false => "not observed apart from other stages",
        };
        let (name, have) = (self.stages.short(), self.stages.have());
        format!("{name} {have} {}: {why}", self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(part: f64) -> Share {
        Share { part, low: part, high: part }
    }

    fn portion(least: f64, most: f64) -> Portion {
        Portion { stages: Stages::DEVICE, least: share(least), most: share(most) }
    }

    #[test]
    fn bounds_decide_or_leave_it_open() {
        assert_eq!(portion(0.6, 0.9).is_most(), Reaches::Yes);
        assert_eq!(portion(0.0, 0.9).is_most(), Reaches::Open);
        assert_eq!(portion(0.0, 0.4).is_most(), Reaches::No);
        assert_eq!(portion(0.1, 0.3).is_at_least(0.2), Reaches::Open);
        let wide = Share { part: 0.7, low: 0.05, high: 0.88 };
        let wide = Portion { stages: Stages::QUEUE, least: wide, most: wide };
        assert_eq!(wide.is_most(), Reaches::Open);
        let text = "queue.wait has 70 % [5, 88] of the time: too uncertain";
        assert_eq!(wide.undecided(), text);
    }

    #[test]
    fn bounds_are_printed_as_a_range() {
        assert_eq!(portion(0.0, 0.99).text(), "0 to 99 % of the time");
        assert_eq!(portion(0.98, 0.982).text(), "98 % [98, 98] of the time");
        assert_eq!(portion(0.98, 0.982).range(), "98 %");
        assert_eq!(portion(0.947, 0.953).range(), "95 %");
        let text = "device.run has 0 to 99 % of the time: not observed apart from other stages";
        assert_eq!(portion(0.0, 0.99).undecided(), text);
    }
}
