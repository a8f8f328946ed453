// The end of a job's log, live. Written into the document directly: a virtual tree would be too slow
// for thousands of lines a second.

import { useSignal } from '@preact/signals';
import type { ComponentChildren, RefObject } from 'preact';
import { useEffect } from 'preact/hooks';
import { t } from '../i18n';
import { follow } from '../store/log';

/** The oldest text is dropped when there is more. */
const KEPT_CHARACTERS = 400_000;

type Status = 'live' | 'broken' | 'ended';

interface Props {
  id: string;
  lives: boolean;
  /** The element with the text. */
  box: RefObject<HTMLPreElement | null>;
  /** More controls. */
  tools: ComponentChildren;
  /** Shown instead of the log: the lines that a search found. */
  found: ComponentChildren;
  /** Shown instead of "No output". */
  empty: ComponentChildren;
}

/** A retry continues in the same stream; a job that is run again after its end needs a new one. */
export function LogTail({ id, lives, box, tools, found, empty: instead }: Props) {
  const following = useSignal(true);
  const status = useSignal<Status>('live');
  const empty = useSignal(true);
  const cut = useSignal(false);
  const life = useSignal(1);

  useEffect(() => {
    if (lives && status.peek() === 'ended') life.value += 1;
  }, [lives]);
  useEffect(() => {
    const element = box.current!;
    element.textContent = '';
    empty.value = true;
    cut.value = false;
    status.value = 'live';
    let pending: Node[] = [];
    let frame = 0;
    let size = 0;

    const draw = (): void => {
      cancelAnimationFrame(frame);
      frame = 0;
      element.append(...pending);
      pending = [];
      while (size > KEPT_CHARACTERS && element.firstChild) {
        const oldest = element.firstChild;
        const over = size - KEPT_CHARACTERS;
        // A piece may be longer than the limit: keep its end.
        if (oldest instanceof Text && oldest.length > over) {
          oldest.deleteData(0, over);
          size -= over;
        } else {
          oldest.remove();
          size -= oldest.textContent?.length ?? 0;
        }
        cut.value = true;
      }
      if (following.peek()) element.scrollTop = element.scrollHeight;
    };
    const add = (node: Node): void => {
      pending.push(node);
      size += node.textContent?.length ?? 0;
      empty.value = false;
      frame ||= requestAnimationFrame(draw);
      // A hidden page draws no frames and would keep everything.
      if (size > 2 * KEPT_CHARACTERS) draw();
    };
    const stop = follow(id, {
      text(text) {
        status.value = 'live';
        add(document.createTextNode(text));
      },
      note(text) {
        const line = document.createElement('span');
        line.className = 'log-note';
        line.textContent = `${text}\n`;
        add(line);
      },
      ended: () => (status.value = 'ended'),
      broken: () => (status.value = 'broken'),
    });
    return () => {
      stop();
      cancelAnimationFrame(frame);
    };
  }, [id, life.value]);

  /** Scrolling up pauses the log, scrolling back to the end follows it again. */
  const scrolled = ({ currentTarget: element }: { currentTarget: HTMLElement }): void => {
    following.value = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
  };
  const toggle = (): void => {
    following.value = !following.value;
    if (following.value) box.current!.scrollTop = box.current!.scrollHeight;
  };
  return (
    <section class="panel log" aria-labelledby="log-title">
      <header>
        <h2 id="log-title">{t('log')}</h2>
        <span class="muted" data-log={status.value}>
          {t(`log.${status.value}`)}
        </span>
        <span class="grow" />
        {cut.value && <span class="muted">{t('log.cut')}</span>}
        {status.value !== 'ended' && (
          <button type="button" aria-pressed={!following.value} onClick={toggle}>
            {following.value ? t('log.pause') : t('log.follow')}
          </button>
        )}
        {tools}
      </header>
      {found}
      {empty.value &&
        (instead ?? (
          <p class="log-empty muted">{status.value === 'ended' ? t('log.nothing') : t('log.waiting')}</p>
        ))}
      <pre
        ref={box}
        tabIndex={0}
        aria-label={t('log')}
        onScroll={scrolled}
        hidden={empty.value || Boolean(found)}
      />
    </section>
  );
}
