// A job's log as it is written. A stream that breaks off begins again from the start of the
// log; what is there already is skipped by attempt and byte.

export interface LogPiece {
  attempt: number;
  cluster: string;
  from: number;
  text: string;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** How much of each attempt has been shown. */
export class LogPosition {
  private readonly bytes = new Map<number, number>();

  /** What of this piece is new. */
  advance({ attempt, from, text }: LogPiece): string {
    const have = this.bytes.get(attempt) ?? 0;
    const raw = encoder.encode(text);
    const end = from + raw.length;
    if (end <= have) return '';
    this.bytes.set(attempt, end);
    return from >= have ? text : decoder.decode(raw.subarray(have - from));
  }
}

/** Colours and cursor movements of terminals are left out. */
export function plain(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').replace(/[^\n]*\r(?!\n)/g, '');
}

export interface LogListener {
  text(text: string): void;
  note(text: string): void;
  ended(): void;
  broken(): void;
}

const COME_BACK_MS = 1500;

/** Follows until it ends or the returned function is called. */
export function follow(id: string, listener: LogListener): () => void {
  const position = new LogPosition();
  const notes = new Set<string>();
  let source: EventSource;
  let retry: ReturnType<typeof setTimeout>;
  const open = (): void => {
    source = new EventSource(`/v1/jobs/${encodeURIComponent(id)}/logs/follow`);
    source.addEventListener('log', (event) => {
      const fresh = position.advance(JSON.parse(event.data) as LogPiece);
      if (fresh) listener.text(plain(fresh));
    });
    source.addEventListener('note', (event) => {
      const { text } = JSON.parse(event.data) as { text: string };
      if (!notes.has(text)) listener.note(text);
      notes.add(text);
    });
    source.addEventListener('end', () => {
      source.close();
      listener.ended();
    });
    source.addEventListener('error', () => {
      source.close();
      listener.broken();
      retry = setTimeout(open, COME_BACK_MS);
    });
  };
  open();
  return () => {
    clearTimeout(retry);
    source.close();
  };
}
