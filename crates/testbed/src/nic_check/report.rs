//! Answers and figures of a check.

use super::card::Card;
use super::figures::{Drain, Rates};
use crate::machine::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The questions of a check, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Does the port open?
    Opens,
    /// Is its link up?
    Link,
    /// Does an IOMMU guard memory from it?
    Iommu,
    /// Does it receive into a guest's buffers, as far as the switch is concerned?
    Mapped,
    /// Are frames received there?
    ReceivesInPlace,
    /// Are frames sent from there?
    SendsInPlace,
    /// Is every byte right?
    BytesRight,
    /// Do all buffers come back when guests leave?
    BuffersBack,
    /// Does the memory of a guest that has left stay as it is?
    MemoryUntouched,
    /// Is it faster mapped than copied?
    Faster,
}

impl Question {
    const ALL: [Question; 10] = [
        Question::Opens,
        Question::Link,
        Question::Iommu,
        Question::Mapped,
        Question::ReceivesInPlace,
        Question::SendsInPlace,
        Question::BytesRight,
        Question::BuffersBack,
        Question::MemoryUntouched,
        Question::Faster,
    ];

    /// Reports whether "no" is a fault, rather than something that the device lacks.
    pub fn is_serious(self) -> bool {
        matches!(self, Question::Opens | Question::BytesRight | Question::BuffersBack | Question::MemoryUntouched)
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Question::Opens => "opens",
            Question::Link => "link is up",
            Question::Iommu => "behind an IOMMU",
            Question::Mapped => "mapped",
            Question::ReceivesInPlace => "receives in place",
            Question::SendsInPlace => "sends in place",
            Question::BytesRight => "every byte is right",
            Question::BuffersBack => "buffers come back",
            Question::MemoryUntouched => "memory stays untouched",
            Question::Faster => "faster mapped",
        })
    }
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All of it.
    Yes,
    /// Some of it, or not always.
    Partly,
    /// Nothing of it.
    No,
    /// It was not seen.
    Open,
    /// It does not arise.
    NotApplicable,
}

/// Hundredths of all frames that count as all: some find no buffer free while a flow begins or ends.
const NEARLY: u64 = 99;

impl Verdict {
    /// Returns the answer for so many of many frames.
    pub fn nearly(some: u64, all: u64) -> Verdict {
        if all > 0 && some * 100 >= all * NEARLY { Verdict::Yes } else { Verdict::of(some, all) }
    }

    /// Returns the answer for so many of all.
    pub fn of(some: u64, all: u64) -> Verdict {
        match some {
            _ if all == 0 => Verdict::Open,
            0 => Verdict::No,
            _ if some == all => Verdict::Yes,
            _ => Verdict::Partly,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Yes => "yes",
            Verdict::Partly => "partly",
            Verdict::No => "no",
            Verdict::Open => "open",
            Verdict::NotApplicable => "-",
        })
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// To this.
    pub question: Question,
    /// In a word.
    pub answer: Verdict,
    /// The finding, or the reason why there is none: in the switch's words where it has any.
    pub seen: String,
}

/// All answers.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Answers(Vec<Answer>);

impl Answers {
    /// Reports whether an answer has these words.
    pub fn says(&self, words: &str) -> bool {
        self.0.iter().any(|answer| answer.seen.contains(words))
    }

    /// Adds an answer, in place of an earlier one to the same question.
    pub fn set(&mut self, question: Question, answer: Verdict, seen: impl Into<String>) {
        self.0.retain(|earlier| earlier.question != question);
        self.0.push(Answer { question, answer, seen: seen.into() });
    }

    /// Leaves all questions open that have no answer, for this reason, and brings all in order.
    pub fn finish(&mut self, reason: &str) {
        for question in Question::ALL {
            if self.get(question).is_none() {
                self.set(question, Verdict::Open, reason);
            }
        }
        self.0.sort_by_key(|answer| answer.question as u8);
    }

    /// Returns the answer to a question.
    pub fn get(&self, question: Question) -> Option<&Answer> {
        self.0.iter().find(|answer| answer.question == question)
    }

    /// Returns all answers.
    pub fn iter(&self) -> impl Iterator<Item = &Answer> {
        self.0.iter()
    }

    /// Reports whether something is wrong, or not always right.
    pub fn has_faults(&self) -> bool {
        self.iter().any(|a| a.question.is_serious() && matches!(a.answer, Verdict::No | Verdict::Partly))
    }
}

/// A check's results.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The device, with its arguments.
    pub device: String,
    /// Its driver in DPDK, if it opens.
    pub driver: Option<String>,
    /// The machine's facts about it, if it is a PCI device.
    pub card: Option<Card>,
    /// The other end.
    pub other_end: String,
    /// One for each question.
    pub answers: Answers,
    /// Guests that left while frames flowed.
    pub drains: Vec<Drain>,
    /// Frames per second.
    pub rates: Option<Rates>,
    /// Warnings of the switch, and how often it gave each.
    pub warnings: BTreeMap<String, usize>,
    /// The machine, and the version of DPDK.
    pub machine: Machine,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_without_an_answer_are_open() {
        let mut answers = Answers::default();
        answers.set(Question::Link, Verdict::Yes, "10000 Mbit/s");
        answers.set(Question::Opens, Verdict::No, "at first");
        answers.set(Question::Opens, Verdict::Yes, "");
        answers.finish("no frame came");
        let all: Vec<_> = answers.iter().map(|answer| answer.question).collect();
        assert_eq!(all, Question::ALL);
        assert_eq!(answers.get(Question::Link).unwrap().answer, Verdict::Yes);
        let open = answers.get(Question::BytesRight).unwrap();
        assert_eq!((open.answer, open.seen.as_str()), (Verdict::Open, "no frame came"));
        assert!(!answers.has_faults());
    }

    #[test]
    fn only_what_is_wrong_is_a_fault() {
        let faults = |question, verdict| {
            let mut answers = Answers::default();
            answers.set(question, verdict, "");
            answers.has_faults()
        };
        assert!(!faults(Question::Mapped, Verdict::No) && !faults(Question::Faster, Verdict::Partly));
        assert!(faults(Question::Opens, Verdict::No) && faults(Question::BytesRight, Verdict::Partly));
        assert_eq!(
            [(0, 0), (0, 3), (2, 3), (3, 3)].map(|(some, all)| Verdict::of(some, all)),
            [Verdict::Open, Verdict::No, Verdict::Partly, Verdict::Yes]
        );
    }
}
