// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that compare commands with a condition and commands without it.

use super::percent;
use crate::diagnose::report::{Answer, Command, Compared, Comparison, Facts, Stages, Subject};
use crate::model::command_class::CommandClass;

/// Stages in which data are mapped, copied and unmapped.
pub const COPYING: Stages = Stages::MAP.with(Stages::COMPLETE).with(Stages::END);
/// Commands that are needed of either kind.
const NEEDED: u64 = 30;

/// A condition, and how it is called.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a> {
    /// Whose commands.
    pub subject: Subject,
    /// The stages that it makes longer.
    pub stages: Stages,
    /// The part of the time that it explains, at least.
    pub least: f64,
    /// Commands with it, and without: `commands that found the CPU idle`.
    pub sides: [&'a str; 2],
    /// Whether a long command can bring the condition about.
    pub may_follow: bool,
}

impl Condition<'_> {
    /// The stratum and the comparison that show the condition to go with longer times; otherwise why not.
    pub fn judge(
        &self,
        facts: &Facts,
        when: impl Fn(&Command) -> Option<bool>,
    ) -> Result<(CommandClass, Comparison), Answer> {
        let Some(portion) = facts.portion(self.subject, self.stages) else {
            return Err(Answer::Absent("no commands".into()));
        };
        if portion.most.part < self.least {
            let text = format!("{} {} {}", self.stages.name(), self.stages.have(), portion.text());
            return Err(Answer::Out(text));
        }
        match facts.compare(self.subject, self.stages, when) {
            (Some(stratum), Compared::Found(found)) => match found.goes_with(self.least) {
                true if self.may_follow && !found.may_cause() => {
                    let text = format!(
                        "{}, but not the fastest ones, or not more than others beside them: the condition follows long \
                         times",
                        self.compared(&found)
                    );
                    Err(self.out(facts, stratum, &found, text))
                }
                true => Ok((stratum, found)),
                false => Err(self.not_shown(facts, stratum, &found)),
            },
            (_, Compared::TooFew { with: 0, without: 0, .. }) if !portion.is_exact() => {
                Err(Answer::Open(portion.undecided()))
            }
            (_, Compared::TooFew { with, without, at_most }) => {
                Err(self.too_few(with, without, at_most))
            }
            _ => Err(Answer::Open("no kind of commands could be compared".into())),
        }
    }

    fn too_few(&self, with: u64, without: u64, at_most: f64) -> Answer {
        let [side, other] = self.sides;
        // even if they would take no time at all
        if with + without > 0 && at_most < self.least {
            return match with {
                0 => Answer::Absent(format!("no {side}")),
                _ => Answer::Out(format!("{side}: {with}, with {} of the time", percent(at_most))),
            };
        }
        Answer::Open(format!(
            "{with} {side} and {without} {other}: needs {NEEDED} of each, of the same kind of commands, over a second \
             and more"
        ))
    }

    /// `remote completions take 1.42x [1.31, 1.55] the time`
    fn compared(&self, found: &Comparison) -> String {
        format!("{} take {} the time", self.sides[0], found.text())
    }

    /// The answer for a comparison that does not show a cause. One whose interval allows no effect and
    /// twice the time rules nothing out.
    fn not_shown(&self, facts: &Facts, stratum: CommandClass, found: &Comparison) -> Answer {
        let text = self.compared(found);
        if found.is_vague() {
            return Answer::Open(format!("{text}: too uncertain"));
        }
        if found.goes_with(0.0) {
            let part = percent(found.explains);
            let text = format!("{text}, which explains {part} of the time");
            return self.out(facts, stratum, found, text);
        }
        self.out(facts, stratum, found, text)
    }

    /// Ruled out, for this reason; not if kinds of commands that could not be compared have time enough.
    fn out(
        &self,
        facts: &Facts,
        stratum: CommandClass,
        found: &Comparison,
        text: String,
    ) -> Answer {
        let shown = if found.goes_with(0.0) { found.explains } else { 0.0 };
        if found.unjudged <= 0.0 || shown + found.unjudged < self.least {
            return Answer::Out(text);
        }
        let [side, other] = self.sides;
        Answer::Open(format!(
            "{text} ({}); of other kinds, {side} have {} of the time: needs {NEEDED} of them and {NEEDED} {other} of \
             each kind",
            facts.stratum_name(&stratum),
            percent(found.unjudged)
        ))
    }
}
