// What the token of this page allows. The control plane decides; the page does not offer the rest.

import { t } from '../i18n';
import { version } from './live';

export type Needed = 'submit' | 'admin';

/** Without tokens, everyone may do everything. */
export function may(needed: Needed, role = version.value?.role): boolean {
  return role === undefined || role === 'admin' || role === needed;
}

/** Why a control is disabled. */
export function mayNot(needed: Needed): string | undefined {
  const role = version.value?.role;
  return may(needed, role) ? undefined : t('account.mayNot', { role: role ?? '', needed });
}
