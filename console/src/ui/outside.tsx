// A link that leaves the console, such as to a Ray dashboard.

import type { ComponentChildren } from 'preact';

/** Addresses come from configuration: only those of pages become links. */
export function Outside({ to, children }: { to: string; children: ComponentChildren }) {
  if (!/^https?:\/\//i.test(to)) return <>{children}</>;
  return (
    <a href={to} target="_blank" rel="noopener noreferrer">
      {children} <span aria-hidden="true">↗</span>
    </a>
  );
}
