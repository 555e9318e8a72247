-- SPDX-License-Identifier: MIT
--
-- Procedures of version 1 did not record how long a name is closed after a claim has expired: settle would shorten that.
UPDATE `~names` SET x_delay = (closed - @NOW@) DIV 1000 + 1 WHERE closed > @NOW@ + x_delay * 1000;
