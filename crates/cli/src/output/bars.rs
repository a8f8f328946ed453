//! Bars that show how full something is.

const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// `████▌░░░  57%`; a dash if there is none.
pub(crate) fn bar(share: Option<f64>, cells: usize) -> String {
    let Some(share) = share else { return "–".to_owned() };
    format!("{} {:>3.0}%", blocks(share, cells), share * 100.0)
}

/// The bar alone.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub(crate) fn blocks(share: f64, cells: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * cells as f64 * 8.0).round() as usize;
    let (full, part) = (eighths / 8, eighths % 8);
    let mut bar = "█".repeat(full);
    if part > 0 {
        bar.push(EIGHTHS[part]);
    }
    let drawn = full + usize::from(part > 0);
    bar + &"░".repeat(cells - drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(Some(0.0), 4), "░░░░   0%");
        assert_eq!(bar(Some(0.57), 4), "██▎░  57%");
        assert_eq!(bar(Some(1.0), 4), "████ 100%");
        assert_eq!(bar(Some(1.5), 4), "████ 150%");
        assert_eq!(bar(None, 4), "–");
    }
}
