//! Text for people: colours where they are wanted, numbers that can be read, and quiet ends.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::Duration;

/// Writes `text` to the standard output. Whoever has stopped reading gets no complaint.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Whether text is dressed in colours.
#[derive(Clone, Copy)]
pub struct Style {
    colours: bool,
}

impl Style {
    /// Colours on a terminal, unless the environment has NO_COLOR.
    pub fn detect() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colours: io::stdout().is_terminal() && !refused }
    }

    /// For titles.
    pub fn bold(self, text: &str) -> String {
        self.dress("1", text)
    }

    /// For what one need not read.
    pub fn dim(self, text: &str) -> String {
        self.dress("2", text)
    }

    /// For what is as it should be.
    pub fn good(self, text: &str) -> String {
        self.dress("32", text)
    }

    /// For what is not.
    pub fn bad(self, text: &str) -> String {
        self.dress("31", text)
    }

    fn dress(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A whole number with a comma between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A span of processing time with three digits that mean something.
pub fn span(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    let (value, unit) = match micros {
        ..1e3 => (micros, "µs"),
        ..1e6 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    let decimals = if value >= 99.95 { 0 } else { 1 };
    format!("{value:.decimals$} {unit}")
}

/// Events per second, in thousands or millions.
pub fn rate(events: u64, elapsed: Duration) -> String {
    match events as f64 / elapsed.as_secs_f64().max(1e-9) {
        rate @ ..1e6 => format!("{:.0} k/s", rate / 1e3),
        rate => format!("{:.1} M/s", rate / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [0, 999, 1_000, 12_109, 1_234_567].map(grouped).join(" "),
            "0 999 1,000 12,109 1,234,567"
        );
        let spans = [150, 1_500, 123_456, 2_000_000].map(Duration::from_micros).map(span);
        assert_eq!(spans.join(" "), "150 µs 1.5 ms 123 ms 2.0 s");
        assert_eq!(rate(12_000, Duration::from_millis(10)), "1.2 M/s");
        assert_eq!(rate(12_000, Duration::from_millis(100)), "120 k/s");
    }

    #[test]
    fn without_colours_text_is_plain() {
        assert_eq!(Style { colours: false }.good("yes"), "yes");
        assert_eq!(Style { colours: true }.good("yes"), "\x1b[32myes\x1b[0m");
    }
}
