//! What makes no sense.

use std::time::Duration;

use super::invalid;
use crate::situation::program::Span;
use crate::situation::rule::{
    CloseBy, Closer, Form, InvalidRule, LifespanType, Opener, Operand, Situation,
};
use crate::time::{Timestamp, micros};

/// How many operands a situation may have.
const MOST: usize = 64;

type Checked = Result<(), InvalidRule>;

/// A type of lifespans by itself.
pub(super) fn lifespan<E>(of: &LifespanType<E>) -> Checked {
    let wrong = |field: &str, reason: &str| Err(invalid(&of.name, field, reason));
    if of.openers.is_empty() {
        return wrong("opened", "nothing opens it: say from_start, opened_at or opened_by");
    }
    if of.cap.is_some_and(|cap| cap.most == 0) {
        return wrong("max_open", "none may be open, so no situation is ever found in one");
    }
    let starts = of.openers.iter().any(|opener| matches!(opener, Opener::Start));
    let only_starts = of.openers.iter().all(|opener| matches!(opener, Opener::Start));
    if of.adds && only_starts {
        return wrong("adds", "it opens once, at the start, so there is never a second one");
    }
    if of.cap.is_some() && !of.adds {
        return wrong(
            "max_open",
            "an opener adds none while one is open, unless it is said that it `adds`",
        );
    }
    if of.opener_counts && !of.openers.iter().any(|opener| matches!(opener, Opener::Event(..))) {
        return wrong("opener_counts", "no event opens it");
    }
    for Closer { by, .. } in &of.closers {
        match by {
            CloseBy::After(length) if micros(*length) == 0 => {
                return wrong("closed_after", "it is over as soon as it has begun");
            }
            CloseBy::After(_) if starts => {
                let reason = "it is open from the start, which is at no time of events: open it with \
                              an event, or at a time";
                return wrong("closed_after", reason);
            }
            CloseBy::At(end) => {
                let is_over =
                    |opener: &Opener<E>| matches!(opener, Opener::At(time) if time >= end);
                if of.openers.iter().any(is_over) {
                    return wrong("closed_at", "it is over before it opens");
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A situation in lifespans of its type.
pub(super) fn situation<E>(of: &Situation<E>, lifespan: &LifespanType<E>, span: &Span) -> Checked {
    if of.derives.is_none() {
        return Err(of.invalid("derives", "it is not said what event it is"));
    }
    number_of_operands(of)?;
    for (number, operand) in of.operands.iter().enumerate() {
        an_operand(of, number, operand)?;
    }
    detection(of, lifespan)?;
    quantity(of)?;
    interval(of, lifespan, span)
}

fn number_of_operands<E>(of: &Situation<E>) -> Checked {
    let (least, most) = match of.form {
        Form::At(_) | Form::Every(_) => (0, 0),
        Form::After(_) | Form::Report(_) | Form::Percentage(..) | Form::Crosses(..) => (1, 1),
        Form::Unless => (2, 2),
        Form::Sequence => (2, MOST),
        Form::All | Form::AtLeast(_) | Form::AtMost(_) | Form::Nth(_) | Form::Not => (1, MOST),
    };
    let there = of.operands.len();
    if (least..=most).contains(&there) {
        return Ok(());
    }
    let needed = match (least, most) {
        (0, 0) => "none: it is a matter of time alone".to_owned(),
        (least, most) if least == most => format!("exactly {least}"),
        (least, most) => format!("{least} to {most}"),
    };
    Err(of.invalid("operands", format!("there are {there}, and it has {needed}")))
}

fn an_operand<E>(of: &Situation<E>, number: usize, operand: &Operand<E>) -> Checked {
    let wrong = |field: &str, reason: &str| {
        Err(of.invalid(&format!("{field} of operand {number}"), reason))
    };
    let picks = of.form.is_joining() || (matches!(of.form, Form::Unless) && number == 0);
    if operand.says_which() && !picks {
        return wrong(
            "quantifier",
            "only a situation that joins operands picks one of their candidates",
        );
    }
    if operand.is_absolute_each() {
        return wrong("quantifier", "each of the lifespan is each: say so without absolute");
    }
    if operand.is_absolute() && operand.overrides.is_some() {
        return wrong("override", "absolute says already which candidates are dropped");
    }
    if operand.retain.is_some() {
        if of.is_deferred() {
            return wrong(
                "retain",
                "it is evaluated when the lifespan ends, and nothing stays after that",
            );
        }
        if !of.form.is_joining() && !matches!(of.form, Form::AtLeast(_)) {
            return wrong("retain", "nothing is used up here that could stay");
        }
    }
    let absence = matches!(of.form, Form::Not) || (matches!(of.form, Form::Unless) && number == 1);
    if absence && operand.overrides.is_some() {
        return wrong("override", "that it has come is not undone");
    }
    if matches!(of.form, Form::Nth(_)) && operand.overrides.is_some() && of.operands.len() > 1 {
        return wrong(
            "override",
            "it counts all operands together, and cannot take back those of one",
        );
    }
    if operand.weight.is_some() && !of.form.is_counting() {
        return wrong("weight", "only at_least, at_most and nth count");
    }
    if operand.cap.is_some_and(|cap| cap.most == 0) {
        return wrong("max_candidates", "without a candidate it can never be found");
    }
    Ok(())
}

/// Immediate or deferred, and whether there is an end.
fn detection<E>(of: &Situation<E>, lifespan: &LifespanType<E>) -> Checked {
    if of.deferred == Some(false) && of.form.is_deferred_only() {
        return Err(of.invalid("detection", "it is known only when the lifespan ends"));
    }
    let at_once = of.form.is_timed() || matches!(of.form, Form::Crosses(..));
    if of.deferred == Some(true) && at_once {
        return Err(of.invalid("detection", "it happens at a moment, and cannot wait for the end"));
    }
    if of.is_deferred() && lifespan.closers.is_empty() {
        let reason = "it is detected when the lifespan ends, and it never does: close it by an event or a time";
        return Err(of.invalid("detection", reason));
    }
    Ok(())
}

fn quantity<E>(of: &Situation<E>) -> Checked {
    let wrong = |reason: &str| Err(of.invalid("quantity", reason));
    match of.form {
        Form::AtLeast(n) if n <= 0 => return wrong("at least none is always there"),
        Form::Nth(n) if n <= 0 => return wrong("counting begins with the first"),
        Form::AtMost(n) if n < 0 => return wrong("there cannot be fewer than none"),
        Form::Percentage(_, bound) if !(bound > 0.0 && bound <= 100.0) => {
            return Err(of.invalid("percentage", "it is above 0 and at most 100"));
        }
        Form::Crosses(_, bound) if bound.is_nan() => {
            return Err(of.invalid("bound", "nothing reaches what is not a number"));
        }
        _ => {}
    }
    // Whether the caps let so many candidates be that it is decided.
    if of.operands.iter().any(|operand| operand.weight.is_some() || operand.cap.is_none()) {
        return Ok(());
    }
    let caps = of.operands.iter().filter_map(|operand| operand.cap);
    let most: i64 = caps.map(|cap| i64::from(cap.most)).sum();
    match of.form {
        Form::AtLeast(n) if most < n => Err(of.invalid(
            "max_candidates",
            format!("{n} are needed, and {most} may be kept: it would never hold"),
        )),
        Form::AtMost(n) if most <= n => Err(of.invalid(
            "max_candidates",
            format!("more than {n} are never kept: it would always hold"),
        )),
        _ => Ok(()),
    }
}

fn interval<E>(of: &Situation<E>, lifespan: &LifespanType<E>, span: &Span) -> Checked {
    let starts = span.starts;
    let by_time = lifespan.openers.iter().all(|opener| matches!(opener, Opener::At(_)));
    // Where it opens at times only: the first of them.
    let opens = span.opens_at.first().filter(|_| by_time);
    let most = opens
        .zip(span.closes_at)
        .map(|(opens, (closes, _))| closes.as_micros().saturating_sub(opens.as_micros()));
    let longest = [most, span.closes_after.map(|(length, _)| length)].into_iter().flatten().min();
    let too_long = |length: Duration| longest.is_some_and(|longest| micros(length) >= longest);
    match of.form {
        Form::Every(length) | Form::After(length) if micros(length) == 0 => {
            Err(of.invalid("interval", "it is zero"))
        }
        Form::Every(_) if starts => Err(of.invalid(
            "interval",
            "its lifespan is open from the start, which is at no time of events: open it with an \
             event, or at a time",
        )),
        Form::Every(length) | Form::After(length) if too_long(length) => {
            Err(of.invalid("interval", "the lifespan is over by then"))
        }
        Form::At(time) if span.closes_at.is_some_and(|(end, _)| time >= end) => {
            Err(of.invalid("time", "the lifespan is over by then"))
        }
        Form::At(time) if opens.is_some_and(|&opens| time < opens) => {
            Err(of.invalid("time", "the lifespan has not been opened by then"))
        }
        Form::At(Timestamp::MAX) => Err(of.invalid("time", "that is after all times")),
        _ => Ok(()),
    }
}
