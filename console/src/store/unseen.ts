// A hidden page closes its connections: browsers allow six per host, over all tabs.

export const REST_AFTER_MS = 30_000;

/** Calls `rest` when the page has been hidden for a while, then `wake` when it is visible again. */
export function whenUnseen(rest: () => void, wake: () => void): () => void {
  let timer: ReturnType<typeof setTimeout>;
  let resting = false;
  const looked = (): void => {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => {
        resting = true;
        rest();
      }, REST_AFTER_MS);
    } else if (resting) {
      resting = false;
      wake();
    }
  };
  document.addEventListener('visibilitychange', looked);
  // It may have been opened in the background.
  looked();
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', looked);
  };
}
