// A button that changes something: disabled, with the reason, where the token does not allow it.

import type { ComponentProps } from 'preact';
import { mayNot, type Needed } from '../store/may';

type Props = ComponentProps<'button'> & { needs: Needed };

export function Act({ needs, disabled, title, ...rest }: Props) {
  const why = mayNot(needs);
  return (
    <button
      type="button"
      {...rest}
      disabled={Boolean(disabled) || why !== undefined}
      title={why ?? title}
    />
  );
}
