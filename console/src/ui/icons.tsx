// Small line icons, drawn here so that nothing is fetched.

import type { ComponentChildren } from 'preact';

function icon(children: ComponentChildren) {
  return () => (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      {children}
    </svg>
  );
}

export const OverviewIcon = icon(
  <path d="M2.5 2.5h4.5v6h-4.5zM9 2.5h4.5v3.5H9zM9 8h4.5v5.5H9zM2.5 10.5h4.5v3h-4.5z" />,
);
export const JobsIcon = icon(<path d="M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.01M2.5 8h.01M2.5 12h.01" />);
export const QueueIcon = icon(<path d="M2.5 3.5h11M4.5 8h7M6.5 12.5h3" />);
export const OwnersIcon = icon(
  <path d="M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 13.5c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4M10.5 2.8a2.5 2.5 0 0 1 0 4.4M12 9.9c1.5.6 2.5 1.8 2.5 3.6" />,
);
export const AdviceIcon = icon(
  <path d="M8 1.5a4.5 4.5 0 0 0-2.5 8.2c.6.5 1 1.1 1 1.8h3c0-.7.4-1.3 1-1.8A4.5 4.5 0 0 0 8 1.5zM6.5 14h3" />,
);
export const TimelineIcon = icon(<path d="M2.5 3.5h6M5 8h8.5M2.5 12.5h4M9.5 12.5h4" />);
export const EventsIcon = icon(<path d="M1.5 8.5h3l2-5.5 3 10 2-4.5h3" />);
export const PlusIcon = icon(<path d="M8 3v10M3 8h10" />);
export const SearchIcon = icon(<path d="M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.3 10.3l3.2 3.2" />);
export const DownloadIcon = icon(<path d="M8 2.5v7.5M4.8 7 8 10.2 11.2 7M2.8 13.2h10.4" />);
export const SunIcon = icon(
  <path d="M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1" />,
);
export const MoonIcon = icon(<path d="M13.2 9.6A5.6 5.6 0 0 1 6.4 2.8a5.6 5.6 0 1 0 6.8 6.8z" />);
export const SystemIcon = icon(<path d="M2 3h12v8H2zM6 13.5h4M8 11v2.5" />);
export const KeyboardIcon = icon(
  <path d="M1.5 4h13v8h-13zM4 6.5h.01M6.7 6.5h.01M9.3 6.5h.01M12 6.5h.01M5 9.5h6" />,
);
export const LogOutIcon = icon(<path d="M6.5 2.5h-4v11h4M6 8h7.5M10.5 5l3 3-3 3" />);
export const BackIcon = icon(<path d="M9.5 3.5 5 8l4.5 4.5" />);
export const CloseIcon = icon(<path d="M4 4l8 8M12 4l-8 8" />);
export const AlertIcon = icon(<path d="M8 2 1.5 13.5h13zM8 6.5v3.2M8 11.6v.01" />);

/** The mark of the console, as in its favicon. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M8 16h5l6-6.5h3M13 16h9M13 16l6 6.5h3" />
      <circle cx="8" cy="16" r="2.6" />
      <circle cx="24" cy="9.5" r="2.2" />
      <circle cx="24" cy="16" r="2.2" />
      <circle cx="24" cy="22.5" r="2.2" />
    </svg>
  );
}
