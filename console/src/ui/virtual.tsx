// A list of any length: only the visible rows are in the document.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { visits } from '../router';

interface Props<T> {
  label: string;
  items: T[];
  /** The cells of one row; one of them holds its link, if it has one. */
  row: (item: T) => ComponentChildren;
  header: ComponentChildren;
  rowHeight: number;
  class: string;
}

/** Rows above and below the screen, so that quick scrolling shows no gap. */
const MARGIN = 12;

export function VirtualList<T>({ label, items, row, header, rowHeight, class: name }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const first = useSignal(0);
  const shown = useSignal(30);

  const visit = visits.current;

  useLayoutEffect(() => {
    const element = box.current!;
    // Back to a page leads to where its list was.
    element.scrollTop = visits.topOf(visit);
    const measure = (): void => {
      visits.leave(visit, element.scrollTop);
      // Whole steps only: most scroll events then change nothing.
      const top = Math.floor(element.scrollTop / rowHeight);
      first.value = Math.max(0, top - (top % 4) - MARGIN);
      shown.value = Math.ceil(element.clientHeight / rowHeight) + 2 * MARGIN + 4;
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener('scroll', measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', measure);
    };
  }, [rowHeight, visit]);

  /** Arrows go from row to row, Home and End to the ends. */
  const move = (event: KeyboardEvent): void => {
    const element = box.current!;
    const current = (event.target as Element).closest<HTMLElement>('[data-index]');
    const from = current ? Number(current.dataset['index']) : -1;
    const to = { ArrowDown: from + 1, ArrowUp: from - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to === undefined || to < 0 || to >= items.length) return;
    event.preventDefault();
    const top = to * rowHeight;
    const view = element.clientHeight - 2 * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top > element.scrollTop + view) element.scrollTop = top - view;
    // Twice: the first lets the scroll event happen, the second comes after it was drawn.
    requestAnimationFrame(() =>
      requestAnimationFrame(() =>
        element.querySelector<HTMLElement>(`[data-index="${to}"] a`)?.focus({ preventScroll: true }),
      ),
    );
  };

  const start = Math.min(first.value, Math.max(0, items.length - shown.value));
  const visible = items.slice(start, start + shown.value);
  return (
    <div
      ref={box}
      class={`virtual ${name}`}
      role="table"
      aria-label={label}
      aria-rowcount={items.length}
      tabIndex={0}
      onKeyDown={move}
    >
      <div class="virtual-head" role="row">
        {header}
      </div>
      <div class="virtual-body" role="rowgroup" style={{ height: `${items.length * rowHeight}px` }}>
        {visible.map((item, offset) => (
          <div
            class="virtual-row"
            role="row"
            // By place, not by item: rows that scroll out are reused for rows that scroll in.
            key={(start + offset) % shown.value}
            data-index={start + offset}
            aria-rowindex={start + offset + 1}
            style={{ height: `${rowHeight}px`, transform: `translateY(${(start + offset) * rowHeight}px)` }}
          >
            {row(item)}
          </div>
        ))}
      </div>
    </div>
  );
}

interface CellProps {
  class?: string;
  /** All of it, where the cell may be too narrow. */
  title?: string | undefined;
  children?: ComponentChildren;
}

export function Cell({ class: name = '', title, children }: CellProps) {
  return (
    <div role="cell" class={`cell ${name}`} title={title}>
      {children}
    </div>
  );
}

interface HeadProps {
  class?: string;
  sorted?: 'ascending' | 'descending' | undefined;
  children?: ComponentChildren;
}

export function Head({ class: name = '', sorted, children }: HeadProps) {
  return (
    <div role="columnheader" class={`cell ${name}`} aria-sort={sorted}>
      {children}
    </div>
  );
}
