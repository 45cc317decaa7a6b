"""Inference of a Fabric from the interfaces of many hosts, whatever source described them.

import_hosts -> site.SiteFinder          rails by their ranges, without management and storage
             -> schemes.iter_candidates  addressing that could have produced these addresses
             -> trial.choose_trial       the candidate whose plan differs least from the files
             -> compare                  slots from addresses, and the plan compared with the files

Everything that does not fit is reported as a problem with its place.
"""
