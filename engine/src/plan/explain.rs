//! What a plan looks like, as text and as a Mermaid diagram.

use std::fmt::Write;

use super::{Head, Piece, Plan, Reorder, Shape, Site};
use crate::operator::OpId;

impl Plan {
    /// The plan as text: a block per partitioned query with its mode, why it has it, and its
    /// operators with the source line that made each.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        let (pieces, workers) = (self.pieces.len(), self.workers);
        let ops = || self.pieces.iter().flat_map(|piece| self.all_ops(piece));
        let width = ops().map(|op| self.describe_op(op).len()).max().unwrap_or(0).max(40);
        let _ = writeln!(
            text,
            "{pieces} partitioned {} on {workers} {}",
            if pieces == 1 { "query" } else { "queries" },
            if workers == 1 { "worker" } else { "workers" },
        );
        for (index, piece) in self.pieces.iter().enumerate() {
            let _ = writeln!(text, "\n[{index}] {}: {}", describe_mode(piece), piece.reason);
            if !piece.inputs.is_empty() {
                let from: Vec<_> = piece.inputs.iter().map(|from| format!("[{from}]")).collect();
                let _ = writeln!(text, "    from {}", from.join(", "));
            }
            if let Some(stage) = self.describe_reorder(piece) {
                let _ = writeln!(text, "    reorder: {stage}");
            }
            for op in self.all_ops(piece) {
                let place = short_place(self.site(op));
                let _ = writeln!(text, "    {:<width$} {place}", self.describe_op(op));
                for line in self.site(op).drawn.iter().flat_map(|drawn| &drawn.text) {
                    let _ = writeln!(text, "        {line}");
                }
            }
        }
        text
    }

    /// The plan as a Mermaid flowchart: a subgraph per partitioned query.
    pub fn explain_mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n");
        for (index, piece) in self.pieces.iter().enumerate() {
            let _ = writeln!(text, "  subgraph p{index}[\"{index}: {}\"]", describe_mode(piece));
            if piece.reorder != Reorder::Never {
                let _ = writeln!(text, "    r{index}{{{{reorder}}}}");
            }
            for op in self.all_ops(piece) {
                let label = self.describe_op(op).replace('"', "&quot;");
                let _ = writeln!(text, "    o{}[\"{label}\"]", op.0);
            }
            let nodes = self.nodes(index);
            for pair in nodes.windows(2) {
                let _ = writeln!(text, "    {} --> {}", pair[0], pair[1]);
            }
            let _ = writeln!(text, "  end");
        }
        self.draw_insides(&mut text);
        for (index, piece) in self.pieces.iter().enumerate() {
            for &from in &piece.inputs {
                let arrow = if self.pieces[from].ticket_order { "==>" } else { "-->" };
                let _ = writeln!(text, "  p{from} {arrow} p{index}");
            }
        }
        text
    }

    /// Beside the operators that have an inside to show, a subgraph with it.
    fn draw_insides(&self, text: &mut String) {
        for (op, site) in self.spec.sites.iter().enumerate() {
            let Some(drawn) = &site.drawn else { continue };
            let _ = writeln!(text, "  subgraph i{op}[\"{}\"]", site.name.replace('"', "&quot;"));
            for (from, label, to) in &drawn.arrows {
                let label = label.replace('"', "&quot;");
                let _ =
                    writeln!(text, "    i{op}{from}(({from})) -->|\"{label}\"| i{op}{to}(({to}))");
            }
            let _ = writeln!(text, "  end\n  o{op} -.- i{op}");
        }
    }

    /// A piece's operators, its head first.
    fn all_ops(&self, piece: &Piece) -> impl Iterator<Item = OpId> {
        self.head_op(piece).into_iter().chain(piece.ops.iter().copied())
    }

    fn nodes(&self, index: usize) -> Vec<String> {
        let piece = &self.pieces[index];
        let head = self.head_op(piece).map(|op| format!("o{}", op.0));
        let stage = (piece.reorder != Reorder::Never).then(|| format!("r{index}"));
        head.into_iter()
            .chain(stage)
            .chain(piece.ops.iter().map(|op| format!("o{}", op.0)))
            .collect()
    }

    fn describe_op(&self, op: OpId) -> String {
        let site = self.site(op);
        let mut text = site.kind.to_owned();
        if site.name != site.kind {
            let _ = write!(text, " {:?}", site.name);
        }
        if site.in_order {
            text.push_str(" (in order)");
        }
        let promise = self.spec.segments.iter().find_map(|segment| match segment.head {
            Head::Source { op: head, in_order }
            | Head::Key { op: head, in_order }
            | Head::Retimed { op: head, in_order }
                if head == op =>
            {
                Some(in_order)
            }
            _ => None,
        });
        match promise {
            Some(true) => text.push_str(" (declared in order)"),
            Some(false) => text.push_str(" (out of order)"),
            None => {}
        }
        if site.shape == Shape::Keyed {
            text.push_str(" per key");
        }
        let group = self.spec.segments.iter().find_map(|segment| match segment.head {
            Head::Group { shared, .. } if segment.ops.contains(&op) => Some(shared),
            _ => None,
        });
        match group {
            Some(shared) if shared != Some(op) => text.push_str(" per member"),
            Some(_) if site.shape == Shape::Keyed => {
                text.push_str(", slices shared by members on the same key");
            }
            Some(_) => text.push_str(", slices shared by all members"),
            None => {}
        }
        text
    }

    fn describe_reorder(&self, piece: &Piece) -> Option<String> {
        match piece.reorder {
            Reorder::Never => None,
            Reorder::Stage => {
                Some("a stage that holds events until the watermark reaches them".into())
            }
            Reorder::Merge => {
                Some(format!("a merge of {} ordered inputs by watermark", piece.inputs.len()))
            }
        }
    }
}

fn describe_mode(piece: &Piece) -> String {
    match (piece.mode, piece.shards) {
        (mode, shards) if shards > 1 => format!("{mode} in {shards} shards"),
        (mode, _) => mode.to_string(),
    }
}

/// The file without its folders, and the line.
fn short_place(site: &Site) -> String {
    let file = site.location.file();
    let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
    format!("{file}:{}", site.location.line())
}
