//! Two lines in which viewers stand: those who have everything, and those for whom there is something to send.
//!
//! When bytes arrive, all who wait become ready at once, however many they are; a viewer leaves its line from the middle as
//! cheaply as from the front. So the work of a turn grows with those that are served, not with those that are connected.

use crate::slots::Id;

/// Which line a viewer stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Has everything that there is.
    Waiting,
    /// Has something to be sent, and its socket takes it.
    Ready,
}

/// Both lines as rings of links; the first two nodes are their ends. Node `2 + id.index()` belongs to the viewer of that id.
pub(super) struct Lines<V> {
    nodes: Vec<Node<V>>,
}

struct Node<V> {
    previous: u32,
    next: u32,
    viewer: Option<Id<V>>,
}

const ENDS: usize = 2;

impl Line {
    fn end(self) -> u32 {
        match self {
            Line::Waiting => 0,
            Line::Ready => 1,
        }
    }
}

impl<V> Default for Lines<V> {
    fn default() -> Lines<V> {
        let end = |node| Node {
            previous: node,
            next: node,
            viewer: None,
        };
        Lines {
            nodes: vec![end(0), end(1)],
        }
    }
}

impl<V> Lines<V> {
    /// Puts a viewer at the end of a line, out of whichever it stood in.
    pub fn push(&mut self, line: Line, viewer: Id<V>) {
        self.remove(viewer);
        let node = (viewer.index() + ENDS) as u32;
        while self.nodes.len() <= node as usize {
            let own = self.nodes.len() as u32;
            self.nodes.push(Node {
                previous: own,
                next: own,
                viewer: None,
            });
        }
        let last = self.nodes[line.end() as usize].previous;
        self.nodes[node as usize] = Node {
            previous: last,
            next: line.end(),
            viewer: Some(viewer),
        };
        self.nodes[last as usize].next = node;
        self.nodes[line.end() as usize].previous = node;
    }

    /// Takes a viewer out of its line, if it stands in one.
    pub fn remove(&mut self, viewer: Id<V>) {
        let node = viewer.index() + ENDS;
        let Some(&Node { previous, next, .. }) = self.nodes.get(node) else {
            return;
        };
        self.nodes[previous as usize].next = next;
        self.nodes[next as usize].previous = previous;
        self.nodes[node] = Node {
            previous: node as u32,
            next: node as u32,
            viewer: None,
        };
    }

    /// Who stands first.
    pub fn first(&self, line: Line) -> Option<Id<V>> {
        let first = self.nodes[line.end() as usize].next;
        self.nodes[first as usize].viewer
    }

    /// All who wait go to the end of those who are ready, in their order.
    pub fn wake_all(&mut self) {
        let (waiting, ready) = (Line::Waiting.end() as usize, Line::Ready.end() as usize);
        let (first, last) = (self.nodes[waiting].next, self.nodes[waiting].previous);
        if first as usize == waiting {
            return;
        }
        let last_ready = self.nodes[ready].previous;
        self.nodes[last_ready as usize].next = first;
        self.nodes[first as usize].previous = last_ready;
        self.nodes[last as usize].next = ready as u32;
        self.nodes[ready].previous = last;
        self.nodes[waiting].next = waiting as u32;
        self.nodes[waiting].previous = waiting as u32;
    }

    /// Who stands in a line, in order. For rare paths and for tests.
    pub fn iter(&self, line: Line) -> impl Iterator<Item = Id<V>> {
        let mut node = self.nodes[line.end() as usize].next;
        std::iter::from_fn(move || {
            let viewer = self.nodes[node as usize].viewer?;
            node = self.nodes[node as usize].next;
            Some(viewer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Slots;

    #[test]
    fn viewers_keep_their_order_and_leave_from_anywhere() {
        let mut slots = Slots::default();
        let ids: Vec<Id<()>> = (0..5).map(|_| slots.insert(())).collect();
        let mut lines = Lines::default();
        lines.push(Line::Ready, ids[0]);
        for id in &ids[1..] {
            lines.push(Line::Waiting, *id);
        }
        lines.remove(ids[2]);
        lines.wake_all();
        lines.wake_all();
        assert_eq!(lines.iter(Line::Waiting).count(), 0);
        assert_eq!(
            lines.iter(Line::Ready).collect::<Vec<_>>(),
            [ids[0], ids[1], ids[3], ids[4]]
        );
        lines.remove(ids[4]);
        lines.push(Line::Waiting, ids[0]);
        lines.remove(ids[4]);
        assert_eq!(lines.first(Line::Ready), Some(ids[1]));
        assert_eq!(
            lines.iter(Line::Ready).collect::<Vec<_>>(),
            [ids[1], ids[3]]
        );
        assert_eq!(lines.first(Line::Waiting), Some(ids[0]));
    }
}
